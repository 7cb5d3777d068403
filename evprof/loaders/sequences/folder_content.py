"""What is in a folder and a few levels below, as far as it matters to a sequence: listed, hardly opened.

Depth, entries and circular links are bounded, so that a home folder dropped by mistake costs little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from evprof.core.errors import UserError
from evprof.loaders.events.opening import format_of
from evprof.loaders.events.recording import HEAD_BYTES
from evprof.loaders.paths import opened_file

DEPTH = 4
"""Levels below the folder: a data set with one sequence in it has its pictures in the fourth."""

MOST_FOLDERS = 500
MOST_ENTRIES = 60_000
MOST_IN_FOLDER = 10_000
"""Entries of one folder that are looked at: a camera's pictures are many and all alike."""

MOST_HEADS = 200
"""Files whose first bytes are read."""

PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp"})

_VIDEO_MAGICS = (b"\x1aE\xdf\xa3", b"GIF87a", b"GIF89a", b"FLV\x01", b"OggS", b"0&\xb2u\x8ef\xcf\x11")
_TEXT_SUFFIXES = frozenset({".txt", ".csv"})
_UNMARKED = {"n-caltech": (".bin",), "csv": (".txt", ".csv", ".gz")}


@dataclass
class FolderContent:
    """Paths below `root`, each list in the order people read."""

    root: Path
    events: list[Path] = field(default_factory=list)
    videos: list[Path] = field(default_factory=list)
    picture_folders: list[Path] = field(default_factory=list)
    times: list[Path] = field(default_factory=list)
    rectify_maps: list[Path] = field(default_factory=list)

    def words(self, path: Path) -> list[str]:
        """The words of a path below `root`, in small letters: events/left/a_b.h5 -> events left a b h5."""
        relative = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return [word for word in re.split(r"[^a-z0-9]+", str(relative).lower()) if word]


def folder_content(root: str | Path) -> FolderContent:
    """Looks through a folder. What cannot be listed or opened is left out."""
    content = FolderContent(Path(root))
    heads = 0
    for path, has_pictures in _walk(content.root):
        said = content.words(path)
        is_text = path.suffix.lower() in _TEXT_SUFFIXES
        if has_pictures:
            content.picture_folders.append(path)
        elif is_text and {"timestamps", "timestamp", "times"} & set(said):
            content.times.append(path)
        elif heads < MOST_HEADS and (not is_text or {"events", "event"} & set(said)):
            heads += 1
            _sort_in(path, said, content)
    return content


def _sort_in(path: Path, said: list[str], content: FolderContent) -> None:
    try:
        with opened_file(path) as file:
            head = file.read(HEAD_BYTES)
    except (UserError, OSError):
        return
    if is_video_head(head):
        content.videos.append(path)
        return
    form = format_of(head)
    # What has no mark of its own is taken by its name here: other files of a dataset may look like it.
    if form is not None and (form.name not in _UNMARKED or path.suffix.lower() in _UNMARKED[form.name]):
        (content.rectify_maps if "rectify" in said else content.events).append(path)


def is_video_head(head: bytes) -> bool:
    """Whether a file begins like one of the usual containers."""
    return head.startswith(_VIDEO_MAGICS) or head[4:8] == b"ftyp" or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")


def _walk(root: Path) -> Iterator[tuple[Path, bool]]:
    """Files (False) and folders that directly hold pictures (True), breadth first; pictures themselves are left out."""
    level, seen, entries = [root], set[Path](), 0
    for _ in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if len(seen) >= MOST_FOLDERS or entries >= MOST_ENTRIES:
                return
            listed = _listed(folder, seen)
            entries += len(listed)
            files = [path for path, is_folder in listed if not is_folder]
            below += [path for path, is_folder in listed if is_folder]
            others = [path for path in files if path.suffix.lower() not in PICTURE_SUFFIXES]
            if len(others) < len(files):
                yield folder, True
            yield from ((path, False) for path in others)
        level = below


def _listed(folder: Path, seen: set[Path]) -> list[tuple[Path, bool]]:
    """The files (False) and folders (True) in a folder, sorted; none of one that was seen before through a link."""
    try:
        place = folder.resolve()
        if place in seen:
            return []
        seen.add(place)
        with os.scandir(folder) as entries:
            listed = [
                (Path(entry.path), entry.is_dir())
                for entry in islice(entries, MOST_IN_FOLDER)
                if not entry.name.startswith(".") and (entry.is_dir() or entry.is_file())
            ]
    except (OSError, ValueError, RuntimeError):
        return []
    return sorted(listed)
