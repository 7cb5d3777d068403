"""Readers that turn files into samples; they know no model and no window."""
