"""Finds the files that a row names. It looks at what exists and opens nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from itertools import islice

from evprof.loaders.pictures.frame_folder import FRAME_NUMBER
from evprof.loaders.sequences.folder_content import PICTURE_SUFFIXES

MAX_LISTED = 200_000
"""Entries of one folder."""


class ListedFiles:
    """Files below `root`, where relative paths start. Folders are listed once."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._kind = lru_cache(maxsize=1 << 16)(_kind)
        self._sets = lru_cache(maxsize=1 << 12)(_sets)

    def file(self, *names: str) -> str | None:
        """The first name that is a file."""
        return next((path for path in self._paths(names) if self._kind(path) == "file"), None)

    def folder(self, name: str) -> str | None:
        """A folder without pictures directly in it."""
        path = os.path.join(self._root, name)
        return path if self._kind(path) == "folder" and not self._sets(path) else None

    def events(self, *names: str) -> str | None:
        """The first name that is a file, a folder, or a numbered set of pictures (`clip_*.png`)."""
        return next((path for path in self._paths(names) if self._kind(path) or self._is_set(path)), None)

    def frames(self, *names: str) -> str | None:
        """The first name that is a folder of pictures, or a numbered set of them."""
        return next((path for path in self._paths(names) if self._sets(path) or self._is_set(path)), None)

    def video(self, *names: str) -> str | None:
        """The first name that is a file, else the first folder or numbered set of pictures."""
        return self.file(*names) or self.frames(*names)

    def _paths(self, names: Iterable[str]) -> list[str]:
        return [os.path.join(self._root, name) for name in names]

    def _is_set(self, path: str) -> bool:
        folder, name = os.path.split(path)
        prefix, star, suffix = name.partition(FRAME_NUMBER)
        return bool(star) and suffix.lower() == ".png" and self._sets(folder)[prefix] > 0


def _kind(path: str) -> str | None:
    with suppress(OSError, ValueError):
        return "file" if os.path.isfile(path) else "folder" if os.path.isdir(path) else None
    return None


def _sets(folder: str) -> Counter[str]:
    """The pictures of a folder by their names without the number at the end."""
    sets: Counter[str] = Counter()
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in islice(entries, MAX_LISTED):
            stem, suffix = os.path.splitext(entry.name)
            if suffix.lower() not in PICTURE_SUFFIXES or not entry.is_file():
                continue
            prefix = stem.rstrip("0123456789")
            sets[prefix if suffix.lower() == ".png" and prefix != stem else entry.name] += 1
    return sets
