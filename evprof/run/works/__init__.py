"""Long work that one program has another carry out: what it is asked for, and how it tells how far it is."""
