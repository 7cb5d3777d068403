"""The comparison window."""
