"""`evprof adapter`."""
