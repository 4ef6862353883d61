"""One file per format: a path in, a RawLog out."""
