"""Event recordings as text: one event per line."""
