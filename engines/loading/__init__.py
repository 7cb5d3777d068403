"""Models brought onto a device: found by name, checked, filled with weights, kept warm."""
