"""What the whole window shares: selection, runs, the open session."""
