"""Several prompts answered at once."""
