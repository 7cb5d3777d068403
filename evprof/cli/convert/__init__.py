"""`evprof convert`."""
