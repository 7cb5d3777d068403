"""What the window shows, one view per file."""
