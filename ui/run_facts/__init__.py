"""What is said of a run: its names, its figures, where it comes from."""
