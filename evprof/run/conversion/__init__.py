"""Turns recordings and videos into other formats, one at a time or a whole list of samples."""
