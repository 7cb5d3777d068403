"""The list of samples, and what is opened or dropped."""
