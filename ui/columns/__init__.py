"""The two columns: one model each, its stages, its answer."""
