"""`evprof bench gpu`: all that only a GPU can show, by sections in one process that is replaced where it fails."""
