"""The shared time axis and everything drawn along it."""
