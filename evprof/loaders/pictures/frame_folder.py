"""Reads a folder of PNG event frames, in the order people number them (frame2 before frame10)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.paths import reason

if TYPE_CHECKING:
    from evprof.loaders.pictures.render import Picture


def uniform_indices(total: int, count: int) -> npt.NDArray[np.int64]:
    """`count` frame numbers spread evenly over `total` frames, first and last included.

    The rule is round(linspace(0, total - 1, count)); with more frames asked for than there are, frames repeat. A single
    one is the first.
    """
    indices: npt.NDArray[np.int64] = np.linspace(0, total - 1, count).round().astype(np.int64)
    return indices


MAX_FILES = 100_000
MAX_READ_BYTES = 2 << 30

FRAME_NUMBER = "*"
"""In the name of a set of pictures, what stands for the picture's number."""


@dataclass(frozen=True)
class EventFrames:
    """Event frames that were rendered elsewhere: pictures uint8 [H, W, 3] and the file each came from."""

    frames: list[Picture]
    paths: list[Path]


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts digits by value: `a2` before `a10`; usable with any names, ties broken by spelling."""
    parts = re.split(r"([0-9]+)", name)
    # Every second part is the digits; file names are short, so they never make a number too long to read.
    keys = [(0, int(part), part) if place % 2 else (1, 0, part.lower()) for place, part in enumerate(parts)]
    return (*keys, (2, 0, name))


def is_frame_set(path: str | Path) -> bool:
    """Whether a path names the pictures of one clip among others in a folder, as `drive/000001_*.png` does."""
    found = Path(path)
    return FRAME_NUMBER in found.name and found.suffix.lower() == ".png" and not found.exists()


def is_there(path: str | Path) -> bool:
    """Whether a path leads to a file, a folder, or at least one picture of a set."""
    if not is_frame_set(path):
        return Path(path).exists()
    try:
        return bool(_set_paths(Path(path)))
    except OSError:
        return False


def frame_paths(folder: str | Path) -> list[Path]:
    """The PNG files directly inside `folder`, or those of a set (see `is_frame_set`), naturally sorted.

    Raises UserError when there is none.
    """
    found = Path(folder)
    try:
        if is_frame_set(found):
            paths = _set_paths(found)
        elif not found.is_dir():
            raise UserError(f"{folder}: no such folder; give a folder of PNG event frames.")
        else:
            paths = [entry for entry in found.iterdir() if entry.suffix.lower() == ".png" and entry.is_file()]
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be listed ({reason(error)}); check its permissions.") from None
    if not paths:
        raise UserError(f"{folder}: holds no PNG files; give a folder of event frames or a .npy or .npz recording.")
    if len(paths) > MAX_FILES:
        raise UserError(f"{folder}: holds {len(paths):,} PNG files, more than the {MAX_FILES:,} allowed.")
    return sorted(paths, key=lambda path: natural_key(path.name))


def _set_paths(pattern: Path) -> list[Path]:
    """The files of a set: the mark stands for a number, so that clip_1_*.png holds none of clip_1_extra_0.png."""
    before, _, after = pattern.name.partition(FRAME_NUMBER)
    name = re.compile(f"{re.escape(before)}[0-9]+{re.escape(after)}", re.IGNORECASE)
    return [entry for entry in pattern.parent.iterdir() if name.fullmatch(entry.name) and entry.is_file()]


def load_event_frames(folder: str | Path, count: int | None = None) -> EventFrames:
    """The frames of a folder or set and the file of each; with `count`, that many spread evenly (`uniform_indices`).

    A file chosen twice is read once and appears twice. Raises UserError.
    """
    from evprof.loaders.pictures.png import read_png

    paths = frame_paths(folder)
    if count is not None:
        if count < 1:
            raise UserError(f"{folder}: at least 1 event frame must be asked for, not {count}.")
        paths = [paths[index] for index in uniform_indices(len(paths), count)]
    pictures: dict[Path, Picture] = {}
    total = 0
    for path in paths:
        if path in pictures:
            continue
        pictures[path] = read_png(path)
        total += pictures[path].nbytes
        if total > MAX_READ_BYTES:
            raise UserError(f"{folder}: its frames take more than {MAX_READ_BYTES >> 30} GiB; ask for fewer frames.")
    return EventFrames([pictures[path] for path in paths], paths)
