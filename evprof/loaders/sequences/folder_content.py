"""What lies in a folder and a few levels below, as far as it matters to a sequence: listed, hardly opened.

Bounded in depth, in entries and against links that lead in circles, so that a home folder dropped by mistake costs
little.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    """Paths below `root`, each list in the order people read. `is_whole`: nothing was left out for being too much."""

    root: Path
    events: list[Path] = field(default_factory=list)
    videos: list[Path] = field(default_factory=list)
    picture_folders: list[Path] = field(default_factory=list)
    times: list[Path] = field(default_factory=list)
    rectify_maps: list[Path] = field(default_factory=list)
    is_whole: bool = True


def words(path: Path, root: Path) -> list[str]:
    """The words that a path below `root` is made of, in small letters: events/left/a_b.h5 -> events left a b h5."""
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = path
    return [word for word in re.split(r"[^a-z0-9]+", str(relative).lower()) if word]


def folder_content(root: str | Path) -> FolderContent:
    """Looks through a folder. What cannot be listed or opened is not there."""
    content = FolderContent(Path(root))
    heads = 0
    for path, has_pictures in _walk(content):
        if has_pictures:
            content.picture_folders.append(path)
            continue
        said = words(path, content.root)
        if _is_text_of_times(path, said):
            content.times.append(path)
            continue
        if path.suffix.lower() in _TEXT_SUFFIXES and "events" not in said and "event" not in said:
            continue
        if heads >= MOST_HEADS:
            content.is_whole = False
            continue
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


def _is_text_of_times(path: Path, said: list[str]) -> bool:
    return path.suffix.lower() in _TEXT_SUFFIXES and any(word in said for word in ("timestamps", "timestamp", "times"))


def _walk(content: FolderContent) -> Iterator[tuple[Path, bool]]:
    """Files (False) and folders that directly hold pictures (True), breadth first; pictures themselves are left out."""
    level, seen, entries = [content.root], set[tuple[int, int]](), 0
    for _ in range(DEPTH + 1):
        below: list[Path] = []
        for folder in level:
            if len(seen) >= MOST_FOLDERS or entries >= MOST_ENTRIES:
                content.is_whole = False
                return
            listed = _listed(folder, seen)
            entries += len(listed)
            content.is_whole = content.is_whole and len(listed) < MOST_IN_FOLDER
            files, folders, has_pictures = _told_apart(listed)
            below += folders
            if has_pictures:
                yield folder, True
            for path in files:
                yield path, False
        level = below


def _listed(folder: Path, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    """The entries of a folder, sorted; none of one that was seen before by another way."""
    found: list[os.DirEntry[str]] = []
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in seen and status.st_ino:
            return []
        seen.add((status.st_dev, status.st_ino or len(seen)))
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(entry)
                if len(found) >= MOST_IN_FOLDER:
                    break
    except (OSError, ValueError):
        return []
    return sorted(found, key=lambda entry: entry.name)


def _told_apart(listed: list[os.DirEntry[str]]) -> tuple[list[Path], list[Path], bool]:
    files: list[Path] = []
    folders: list[Path] = []
    has_pictures = False
    for entry in listed:
        if entry.name.startswith("."):
            continue
        try:
            if entry.is_dir():
                folders.append(Path(entry.path))
            elif entry.is_file():
                if os.path.splitext(entry.name)[1].lower() in PICTURE_SUFFIXES:
                    has_pictures = True
                else:
                    files.append(Path(entry.path))
        except OSError:
            continue
    return files, folders, has_pictures
