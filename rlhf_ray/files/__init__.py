"""Writing that survives crashes, and digests. No knowledge of what is written."""
