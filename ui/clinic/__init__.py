"""The acceptance clinic."""
