"""How files of SQLite are told: our sessions are some of them."""

from __future__ import annotations

SQLITE_MAGIC = b"SQLite format 3\x00"
"""Their first bytes."""

APPLICATION_ID_AT = 68
"""Where the big-endian number of four bytes stands that tells whose they are."""
