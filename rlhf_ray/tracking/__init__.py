"""What a run leaves behind: metrics, rollouts, artifacts, pictures; and what it shows while it runs."""
