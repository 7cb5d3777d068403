"""`evprof bench gpu`: everything that only a GPU can show, section by section, each in a process of its own."""
