"""The window: everything that imports PySide6; it knows evprof, never engines."""
