"""Reads the metrics of any RLHF run and says what is wrong with it. Imports neither torch nor ray."""
