"""Finds the events and the video that a row of a dataset names, by looking at what exists and never into a file."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import islice

from evprof.loaders.manifests.rows import shown
from evprof.loaders.pictures.frame_folder import FRAME_NUMBER
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


LONGEST_PATH = 4096


@dataclass(frozen=True)
class Half:
    """One half of a sample: its path, or in `missing` a clause that says what was named and is not there.

    Neither: the row names no such half.
    """

    path: str | None = None
    missing: str | None = None


NOTHING = Half()


def path_problem(value: object, what: str) -> str | None:
    """Why a cell cannot be a path, as a clause; None when it can (or is empty)."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        return f"its {what} should be a path, not {type_name(value)}"
    if "\0" in value:
        return f"the path of its {what} holds a NUL character"
    if len(value) > LONGEST_PATH:
        return f"the path of its {what} is longer than {LONGEST_PATH:,} characters"
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return f"the path of its {what} holds half a character (a lone surrogate)"
    return None


def type_name(value: object) -> str:
    """What a value is, for people."""
    if isinstance(value, bool):
        return "true or false"
    if value is None:
        return "nothing"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (dict, "a table"),
        (list, "a list"),
        (str, "a text"),
        ((int, float, Decimal), "a number"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "a date or time")


class Counterparts:
    """Looks for files below `root`, the folder that relative paths start from."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._listing = FolderListing()

    def events(self, candidates: Iterable[str]) -> str | None:
        """The first candidate that is a file, a folder, or a numbered set of pictures (`clip_*.png`)."""
        for candidate in candidates:
            for path in self._spellings(candidate):
                if self._listing.kind(path) in (FILE, FOLDER) or self._pictures(path):
                    return path
        return None

    def video(self, candidates: Iterable[str]) -> Half:
        """The first candidate that is a file, else the first folder or numbered set of pictures; others are told."""
        folder = pictures = None
        tried = list(candidates)
        for candidate in tried:
            for path in self._spellings(candidate):
                match self._listing.kind(path):
                    case "file":
                        return Half(path)
                    case "folder" if self._listing.has_video_pictures(path):
                        pictures = pictures or path
                    case "folder":
                        folder = folder or candidate
                    case _ if self._pictures(path):
                        pictures = pictures or path
        if pictures is not None:
            return Half(pictures)
        if folder is not None:
            return Half(None, f"its video '{shown(folder)}' is a folder without pictures")
        return Half(None, f"its video '{shown(tried[0])}' is not there") if tried else NOTHING

    def file(self, candidate: str) -> str | None:
        return next((path for path in self._spellings(candidate) if self._listing.kind(path) == FILE), None)

    def plain_folder(self, candidate: str) -> str | None:
        """The path of an existing folder that holds no pictures itself."""
        return next(
            (
                path
                for path in self._spellings(candidate)
                if self._listing.kind(path) == FOLDER and not self._listing.has_video_pictures(path)
            ),
            None,
        )

    def picture_set(self, folder: str, prefix: str) -> tuple[str, int]:
        """The name of the set of PNG files of `folder` called `prefix`, a number and `.png`, and how many there are."""
        path = os.path.join(self.root, folder)
        return os.path.join(path, f"{prefix}{FRAME_NUMBER}.png"), self._listing.numbered_pictures(path, prefix)

    def picture_folder(self, folder: str) -> tuple[str, int]:
        """A folder, and how many PNG files lie in it."""
        path = os.path.join(self.root, folder)
        return path, self._listing.pictures(path) if self._listing.kind(path) == FOLDER else 0

    def _pictures(self, path: str) -> bool:
        folder, name = os.path.split(path)
        prefix, star, suffix = name.partition(FRAME_NUMBER)
        return bool(star) and suffix.lower() == ".png" and self._listing.numbered_pictures(folder, prefix) > 0

    def _spellings(self, candidate: str) -> tuple[str, ...]:
        """As written; and with slashes for backslashes, for lists that were written under Windows."""
        path = os.path.join(self.root, candidate)
        if os.sep == "/" and "\\" in candidate:
            return path, os.path.join(self.root, candidate.replace("\\", "/"))
        return (path,)
