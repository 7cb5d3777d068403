"""Places to work: this process, an engine process, or many of them on this machine and others (Ray)."""
