"""Saving and finding the state that a run continues from."""
