"""What exists on disk. Opens no files, and lists each folder at most once."""

from __future__ import annotations

import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from evprof.loaders.sequences.folder_content import PICTURE_SUFFIXES

FILE, FOLDER, OTHER = "file", "folder", "other"

MAX_LISTED = 200_000
"""Entries of one folder that are counted."""

_NUMBERED = re.compile(r"(.*?)[0-9]+\.png", re.IGNORECASE | re.DOTALL)


@dataclass
class _Pictures:
    """Pictures in a folder. `numbered`: PNG files by their names without the number at the end."""

    numbered: Counter[str] = field(default_factory=Counter)
    png: int = 0
    all_kinds: int = 0


class FolderListing:
    """Kinds of paths, and pictures in folders, as of the first request."""

    def __init__(self) -> None:
        self.kind = lru_cache(maxsize=1 << 16)(_kind)
        self._folder = lru_cache(maxsize=1 << 12)(_listed)

    def numbered_pictures(self, folder: str, prefix: str) -> int:
        """The number of PNG files of a folder that are called `prefix`, a number and `.png`."""
        return self._folder(folder).numbered[prefix]

    def pictures(self, folder: str) -> int:
        """The number of PNG files in a folder."""
        return self._folder(folder).png

    def has_video_pictures(self, folder: str) -> bool:
        """Whether a folder holds pictures of any kind that is read as a video's frames."""
        return self._folder(folder).all_kinds > 0


def _kind(path: str) -> str | None:
    """FILE, FOLDER, OTHER (a device, a pipe), or None where nothing exists."""
    try:
        if os.path.isfile(path):
            return FILE
        if os.path.isdir(path):
            return FOLDER
        return OTHER if os.path.exists(path) else None
    except (OSError, ValueError):
        return None


def _listed(path: str) -> _Pictures:
    found = _Pictures()
    with suppress(OSError, ValueError), os.scandir(path) as entries:
        for entry in islice(entries, MAX_LISTED):
            if not entry.name.lower().endswith(tuple(PICTURE_SUFFIXES)) or not entry.is_file():
                continue
            found.all_kinds += 1
            found.png += entry.name.lower().endswith(".png")
            if match := _NUMBERED.fullmatch(entry.name):
                found.numbered[match[1]] += 1
    return found
