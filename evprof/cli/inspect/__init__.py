"""`evprof inspect`."""
