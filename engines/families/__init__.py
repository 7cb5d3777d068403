"""One network and one model per family."""
