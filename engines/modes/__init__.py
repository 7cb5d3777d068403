"""The modes of a run, and the run that carries one out."""
