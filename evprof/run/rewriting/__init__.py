"""Sessions joined into a new one."""
