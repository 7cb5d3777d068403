"""Sessions written out in formats other tools open."""
