"""Folders in which a lab keeps one recording: the events, what a camera saw beside them, and both their clocks."""
