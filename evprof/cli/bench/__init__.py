"""`evprof bench`."""
