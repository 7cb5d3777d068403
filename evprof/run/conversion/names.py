"""Folder names for samples: fit for every file system, short, and different even where capitals do not count."""

from __future__ import annotations

import hashlib
import unicodedata

LONGEST_BYTES = 96

_TAKEN = ("manifest.csv", "conversion.jsonl", "conversion.lock")
_WINDOWS = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{number}" for number in range(10)), *(f"lpt{number}" for number in range(10))}
)
"""Names that Windows gives to devices, whatever follows a dot."""


class FolderNames:
    """Gives every sample a folder name that no other has. The same names in the same order give the same folders."""

    def __init__(self) -> None:
        self._used = {_compared(name) for name in _TAKEN}

    def next(self, name: str) -> str:
        """A name made of letters, digits, `.`, `-` and `_`, close to `name`."""
        base = safe_name(name)
        found, number = base, 1
        while _compared(found) in self._used:
            number += 1
            found = f"{base}-{number}"
        self._used.add(_compared(found))
        return found


def safe_name(name: str) -> str:
    """`drive/000001` -> `drive_000001`; what was cut off a long name is told apart by eight digits of its hash."""
    text = unicodedata.normalize("NFC", name)
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text).strip("._ ")
    if len(kept.encode("utf-8", "replace")) > LONGEST_BYTES:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        kept = (
            kept.encode("utf-8", "replace")[: LONGEST_BYTES - 9].decode("utf-8", "ignore").rstrip("._") + f"-{digest}"
        )
    if kept.split(".")[0].casefold() in _WINDOWS:
        kept = f"_{kept}"
    # Ends of what is being written, here and elsewhere.
    return f"{kept}_" if kept.casefold().endswith(".part") else kept or "sample"


def _compared(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
