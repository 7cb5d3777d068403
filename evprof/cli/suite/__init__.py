"""`evprof suite`."""
