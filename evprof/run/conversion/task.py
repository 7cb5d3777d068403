"""One conversion: what is read, what is written where, and what became of it."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import USAGE, Cancelled, UserError
from evprof.core.plain import Plain
from evprof.core.sample import Sample

EVENT_TARGETS = ("npy", "npz", "h5", "raw")
FRAMES, MP4 = "frames", "mp4"
TARGETS = (FRAMES, *EVENT_TARGETS, MP4)
LAYOUTS = ("dict", "structured")
RAW_FORMATS = ("evt3", "evt2", "dat")
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow")
"""x264's, from fast and large to slow and small."""

COMPRESSIONS = ("blosc-zstd", "blosc-lz4", "gzip", "lzf", "none")

SUFFIXES: dict[str, str] = {
    ".npy": "npy",
    ".npz": "npz",
    ".h5": "h5",
    ".hdf5": "h5",
    ".raw": "raw",
    ".dat": "raw",
    ".mp4": MP4,
}
"""What a file's name asks for."""

_PICTURES = frozenset({FRAMES, MP4})
_EVENTS = frozenset(EVENT_TARGETS)

_USED_BY: dict[str, frozenset[str]] = {
    "layout": frozenset({"npy"}),
    "compressed": frozenset({"npz"}),
    "compression": frozenset({"h5"}),
    "raw_format": frozenset({"raw"}),
    "sort": _EVENTS,
    "frames": frozenset({FRAMES}),
    "every": frozenset({FRAMES}),
    "fps": _PICTURES,
    **dict.fromkeys(("canvas", "rendering", "window_us", "window_events"), _PICTURES),
    **dict.fromkeys(("gop", "b_frames", "crf", "size", "preset"), frozenset({MP4})),
    **dict.fromkeys(("threshold", "threshold_off", "threshold_spread", "refractory_us", "seed"), _EVENTS),
    "simulate_width": _EVENTS,
}
"""Which targets a field has a meaning for."""

OF_EVENTS = ("sort", "canvas", "rendering", "window_us", "window_events")
OF_VIDEOS = ("every", "threshold", "threshold_off", "threshold_spread", "refractory_us", "seed", "simulate_width")
"""Fields that only a recording, or only a video, has a use for."""

LARGEST_SIDE = 16_384


@dataclass(frozen=True)
class ConversionRecipe(Plain):
    """The target and its options; of those that were not given, their defaults (None: see `docs`).

    `fps` is a fraction as text (`30000/1001`), `canvas` and `size` are [width, height]. `threshold` and
    `threshold_off` are contrasts in log intensity for brighter and darker.
    """

    to: str
    layout: str = "dict"
    compressed: bool = False
    compression: str = "blosc-zstd"
    raw_format: str = "evt3"
    sort: bool = False
    frames: int | None = None
    every: int | None = None
    fps: str | None = None
    canvas: tuple[int, int] | None = None
    rendering: str | None = None
    window_us: int | None = None
    window_events: int | None = None
    gop: int = 12
    b_frames: int = 2
    crf: int = 20
    size: tuple[int, int] | None = None
    preset: str = "medium"
    threshold: float = 0.2
    threshold_off: float | None = None
    threshold_spread: float = 0.03
    refractory_us: int = 0
    seed: int = 0
    simulate_width: int | None = None

    @property
    def makes_events(self) -> bool:
        """Whether the result is an event recording."""
        return self.to in EVENT_TARGETS

    @property
    def rate(self) -> Fraction | None:
        """Frames per second, where they are asked for."""
        return None if self.fps is None else Fraction(self.fps)

    @property
    def suffix(self) -> str:
        """The end of the result's name; a folder has none."""
        if self.to == FRAMES:
            return ""
        return ".dat" if self.to == "raw" and self.raw_format == "dat" else f".{self.to}"

    @classmethod
    def of(cls, to: str, given: dict[str, Any]) -> ConversionRecipe:
        """A recipe of the fields that were given. Raises UserError (exit code 2) for what cannot be."""
        for name in given:
            if to not in _USED_BY[name]:
                wanted = " or ".join(target for target in TARGETS if target in _USED_BY[name])
                raise UserError(f"{option(name)} belongs to --to {wanted}, not to {to}; leave it out.", exit_code=USAGE)
        recipe = cls(to, **given)
        recipe.validate()
        return recipe

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers out of range and options that exclude each other."""
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                # What is kept in µs is asked for in ms.
                shown = (f"{1e-3 * at:.12g}" if name == "window_us" else str(at) for at in (least, most, value))
                raise UserError("{} must be from {} to {}, not {}.".format(option(name), *shown), exit_code=USAGE)
        for name in ("canvas", "size"):
            sides = getattr(self, name)
            if sides is not None and not all(1 <= side <= LARGEST_SIDE for side in sides):
                raise UserError(f"{option(name)}: sides are 1 to {LARGEST_SIDE} pixels long.", exit_code=USAGE)
        if self.rate is not None and not Fraction(1, 1000) <= self.rate <= 1_000_000:
            raise UserError(f"--fps must be from 0.001 to 1000000, not {self.fps}.", exit_code=USAGE)
        if self.rendering is not None:
            from evprof.loaders.pictures.renderings import RENDERINGS

            if self.rendering not in RENDERINGS:
                raise UserError(f"--rendering is one of {', '.join(RENDERINGS)}.", exit_code=USAGE)
        self._refuse_both("frames", "every", "window_us", "window_events")
        if self.to == FRAMES:
            self._refuse_both("frames", "every", "fps")
        if self.to == MP4 and self.window_events is not None and self.fps is None:
            raise UserError(
                "--window-events needs --fps, because such pictures have no rate of their own.", exit_code=2
            )

    def refuse_for(self, source: str) -> None:
        """Raises UserError (exit code 2) where an option was given that a source, "events" or "video", has no use for.

        A value that is the default of its field is as good as not given.
        """
        names = OF_VIDEOS if source == "events" else OF_EVENTS
        for field in fields(self):
            if field.name in names and getattr(self, field.name) != field.default:
                other = "videos" if source == "events" else "event recordings"
                raise UserError(f"{option(field.name)} is for {other}; leave it out.", exit_code=USAGE)
        if source == "events" and self.to == FRAMES and self.fps is not None:
            raise UserError("--fps is for videos; of events, --window-ms says how much a picture shows.", exit_code=2)

    def _refuse_both(self, *names: str) -> None:
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"{option(given[0])} and {option(given[1])} exclude each other.", exit_code=USAGE)


def option(name: str) -> str:
    """How a field is asked for on the command line."""
    return f"--{name.replace('window_us', 'window_ms').replace('_', '-')}"


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("frames", 1, 1_000_000),
    ("every", 1, 1_000_000),
    ("window_us", 1, 10**12),
    ("window_events", 1, 10**9),
    ("gop", 1, 10_000),
    ("b_frames", 0, 16),
    ("crf", 0, 51),
    ("threshold", 0.01, 10),
    ("threshold_off", 0.01, 10),
    ("threshold_spread", 0, 1),
    ("refractory_us", 0, 10**9),
    ("seed", 0, 2**63 - 1),
    ("simulate_width", 1, LARGEST_SIDE),
)


EVENTS, VIDEO = "events", "video"

KEY_VERSION = 1
"""Raised when the same recipe gives other bytes than before, so that old results are made anew."""


@dataclass(frozen=True)
class Task:
    """Half `source` ("events" or "video") of a sample becomes `output` by `recipe`, cut as the sample's clip says."""

    sample: Sample
    source: str
    output: Path
    recipe: ConversionRecipe

    @property
    def path(self) -> str:
        """What is read."""
        found = self.sample.events_path if self.source == EVENTS else self.sample.video_path
        return found or ""

    @property
    def others(self) -> tuple[str, ...]:
        """What is read beside it."""
        beside = self.sample.rectify_path if self.source == EVENTS else self.sample.video_times_path
        return () if beside is None else (beside,)

    def asks(self) -> dict[str, Any]:
        """What decides the result apart from the files' content: equal for tasks that give the same."""
        clip = [self.sample.start_us, self.sample.duration_us] if self.sample.is_clip else None
        offset = self.sample.video_offset_us if clip and self.source == VIDEO else 0
        return {
            "source": self.source,
            "path": os.path.abspath(self.path),
            "others": [os.path.abspath(path) for path in self.others],
            "clip": clip,
            "offset_us": offset,
            "recipe": self.recipe.to_json(),
        }

    def key(self, stamp_of: Callable[[str], list[int]] | None = None) -> str:
        """A digest of all that decides the result, sizes and times of the files included. Raises OSError."""
        stamps = [(stamp_of or stamp)(path) for path in (self.path, *self.others)]
        content = json.dumps([KEY_VERSION, self.asks(), stamps], sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def stamp(path: str | Path) -> list[int]:
    """Entries, bytes and latest change (ns) of a file, a folder, or a set of pictures. Raises OSError."""
    found = Path(path)
    if found.is_file():
        status = found.stat()
        return [1, status.st_size, status.st_mtime_ns]
    folder = found if found.is_dir() else found.parent
    stats = [entry.stat() for entry in os.scandir(folder) if entry.is_file()]
    return [len(stats), sum(entry.st_size for entry in stats), max((entry.st_mtime_ns for entry in stats), default=0)]


@dataclass(frozen=True)
class Written(Plain):
    """What a conversion left: `kind` is events, frames or video; None is what such a result does not have.

    `starts_us` is how long after the source's own zero (earliest event, first frame) the result begins; `is_simulated`
    marks events that no sensor saw. `notes` are sentences.
    """

    kind: str
    bytes: int
    events: int | None = None
    frames: int | None = None
    starts_us: int = 0
    is_simulated: bool = False
    notes: tuple[str, ...] = ()

    def document(self, path: Path) -> dict[str, Any]:
        """As `--json` tells it."""
        return {
            "path": str(path),
            "kind": self.kind,
            "events": self.events,
            "frames": self.frames,
            "bytes": self.bytes,
            "simulated": self.is_simulated,
        }


def size_of(output: Path) -> int:
    """Bytes of a file, or of a folder's files. Raises OSError."""
    return stamp(output)[1]


Piece = TypeVar("Piece")


class Step:
    """One conversion's progress: `done` of `total` (None: unknown) `unit`s. Written by one thread, read by others."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.done = 0
        self.total: int | None = None
        self.unit = ""
        self._stop = stop or threading.Event()

    def begin(self, unit: str, total: int | None) -> None:
        """Work of so many units begins."""
        self.unit, self.total, self.done = unit, total, 0

    def advance(self, count: int) -> None:
        """So many more are done. Raises Cancelled when a stop was asked for."""
        self.done += count
        if self._stop.is_set():
            raise Cancelled

    def counted(self, pieces: Iterable[Piece], size: Callable[[Piece], int] = lambda _: 1) -> Iterator[Piece]:
        """The pieces, each counted once it has been taken care of."""
        for piece in pieces:
            yield piece
            self.advance(size(piece))
