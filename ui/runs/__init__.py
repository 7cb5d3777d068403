"""The list of runs, and the panels that describe them."""
