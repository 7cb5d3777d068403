"""The sections of a report: each a function of its data; blocks that documents show by name are functions too."""
