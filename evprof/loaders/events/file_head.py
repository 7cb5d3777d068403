"""The first bytes of a file, by which formats are recognised."""

from __future__ import annotations

HEAD_BYTES = 4096
"""Bytes from a file's start that recognition looks at."""

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"
