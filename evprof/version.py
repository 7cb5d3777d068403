"""Which evprof this is, said in this one place. Whatever is written to a file tells it."""

__version__ = "0.2.0"
