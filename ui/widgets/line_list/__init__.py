"""A list of lines: a name left, a word or figure right, optionally a second line below; the parts of the left dock."""
