"""Libraries that are not ours: those used only when asked for, and what they may not print."""
