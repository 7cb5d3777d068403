"""`evprof run`."""
