"""Windows whose pointers follow one another."""
