"""One conversion: its source, its recipe, its output and its result."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from evprof.core.errors import Cancelled, UsageError
from evprof.core.plain import Plain
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import EVENTS, VIDEO

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

LARGEST_SIDE = 16_384

_EVENT_FILES, _PICTURES = frozenset(EVENT_TARGETS), frozenset({FRAMES, MP4})


def _option(
    default: Any, targets: Iterable[str], least: float | None = None, most: float = 0, *, source: str | None = None
) -> Any:
    """A field that counts for these targets, from `least` to `most`, and for one `source` only where it is named."""
    return field(default=default, metadata={"targets": frozenset(targets), "range": (least, most), "source": source})


@dataclass(frozen=True)
class ConversionRecipe(Plain):
    """The target and its options. `fps` is a fraction as text (`30000/1001`), `canvas` and `size` are [width, height],
    `threshold` and `threshold_off` contrasts in log intensity for brighter and darker.
    """

    to: str
    layout: str = _option("dict", {"npy"})
    compressed: bool = _option(False, {"npz"})
    compression: str = _option("blosc-zstd", {"h5"})
    raw_format: str = _option("evt3", {"raw"})
    sort: bool = _option(False, _EVENT_FILES, source=EVENTS)
    frames: int | None = _option(None, {FRAMES}, 1, 1_000_000)
    every: int | None = _option(None, {FRAMES}, 1, 1_000_000, source=VIDEO)
    fps: str | None = _option(None, _PICTURES)
    canvas: tuple[int, int] | None = _option(None, _PICTURES, 1, LARGEST_SIDE, source=EVENTS)
    rendering: str | None = _option(None, _PICTURES, source=EVENTS)
    window_us: int | None = _option(None, _PICTURES, 1, 10**12, source=EVENTS)
    window_events: int | None = _option(None, _PICTURES, 1, 10**9, source=EVENTS)
    gop: int = _option(12, {MP4}, 1, 10_000)
    b_frames: int = _option(2, {MP4}, 0, 16)
    crf: int = _option(20, {MP4}, 0, 51)
    size: tuple[int, int] | None = _option(None, {MP4}, 1, LARGEST_SIDE)
    preset: str = _option("medium", {MP4})
    threshold: float = _option(0.2, _EVENT_FILES, 0.01, 10, source=VIDEO)
    threshold_off: float | None = _option(None, _EVENT_FILES, 0.01, 10, source=VIDEO)
    threshold_spread: float = _option(0.03, _EVENT_FILES, 0, 1, source=VIDEO)
    refractory_us: int = _option(0, _EVENT_FILES, 0, 10**9, source=VIDEO)
    seed: int = _option(0, _EVENT_FILES, 0, 2**63 - 1, source=VIDEO)
    simulate_width: int | None = _option(None, _EVENT_FILES, 1, LARGEST_SIDE, source=VIDEO)

    @property
    def makes_events(self) -> bool:
        return self.to in EVENT_TARGETS

    @property
    def rate(self) -> Fraction | None:
        return None if self.fps is None else Fraction(self.fps)

    @property
    def suffix(self) -> str:
        if self.to == FRAMES:
            return ""
        return ".dat" if self.to == "raw" and self.raw_format == "dat" else f".{self.to}"

    @classmethod
    def of(cls, to: str, given: dict[str, Any]) -> ConversionRecipe:
        for entry in fields(cls):
            if entry.name in given and to not in entry.metadata["targets"]:
                wanted = " or ".join(target for target in TARGETS if target in entry.metadata["targets"])
                raise UsageError(f"{option(entry.name)} belongs to --to {wanted}, not to {to}; leave it out.")
        recipe = cls(to, **given)
        recipe.validate()
        return recipe

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers out of range and options that exclude each other."""
        for entry in fields(self)[1:]:
            (least, most), value = entry.metadata["range"], getattr(self, entry.name)
            for number in value if isinstance(value, tuple) else (value,):
                if least is not None and number is not None and not least <= number <= most:
                    # What is kept in µs is asked for in ms.
                    is_ms = entry.name == "window_us"
                    shown = (f"{1e-3 * at:.12g}" if is_ms else str(at) for at in (least, most, number))
                    raise UsageError("{} must be from {} to {}, not {}.".format(option(entry.name), *shown))
        if self.rate is not None and not Fraction(1, 1000) <= self.rate <= 1_000_000:
            raise UsageError(f"--fps must be from 0.001 to 1000000, not {self.fps}.")
        if self.rendering is not None:
            from evprof.loaders.pictures.renderings import RENDERINGS

            if self.rendering not in RENDERINGS:
                raise UsageError(f"--rendering is one of {', '.join(RENDERINGS)}.")
        self._refuse_both("frames", "every", "window_us", "window_events")
        if self.to == FRAMES:
            self._refuse_both("frames", "every", "fps")
        if self.to == MP4 and self.window_events is not None and self.fps is None:
            raise UsageError("--window-events needs --fps, because such pictures have no rate of their own.")

    def refuse_for(self, source: str) -> None:
        """Raises UserError (exit code 2) for an option that a source, "events" or "video", has no use for."""
        for entry in fields(self)[1:]:
            other = entry.metadata["source"]
            if other not in (None, source) and getattr(self, entry.name) != entry.default:
                kind = "videos" if other == VIDEO else "event recordings"
                raise UsageError(f"{option(entry.name)} is for {kind}; leave it out.")
        if source == EVENTS and self.to == FRAMES and self.fps is not None:
            raise UsageError("--fps is for videos; of events, --window-ms says how much a picture shows.")

    def _refuse_both(self, *names: str) -> None:
        given = [option(name) for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise UsageError(f"{given[0]} and {given[1]} exclude each other.")


def option(name: str) -> str:
    return f"--{name.replace('window_us', 'window_ms').replace('_', '-')}"


KEY_VERSION = 1
"""Incremented when the same recipe gives other bytes."""


@dataclass(frozen=True)
class Task:
    """Half `source` ("events" or "video") of a sample becomes `output` by `recipe`, cut as the sample's clip says."""

    sample: Sample
    source: str
    output: Path
    recipe: ConversionRecipe

    @property
    def path(self) -> str:
        found = self.sample.events_path if self.source == EVENTS else self.sample.video_path
        return found or ""

    @property
    def others(self) -> tuple[str, ...]:
        beside = self.sample.rectify_path if self.source == EVENTS else self.sample.video_times_path
        return () if beside is None else (beside,)

    def asks(self) -> dict[str, Any]:
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
    """A result: `kind` is events, frames or video. `starts_us` is its start after the source's zero (earliest event,
    first frame). `is_simulated` marks events that no sensor saw. `notes` are sentences.
    """

    kind: str
    bytes: int
    events: int | None = None
    frames: int | None = None
    starts_us: int = 0
    is_simulated: bool = False
    notes: tuple[str, ...] = ()

    def document(self, path: Path) -> dict[str, Any]:
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
    """The progress of a conversion: `done` of `total` (None: unknown) `unit`s. One thread writes, others read."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.done = 0
        self.total: int | None = None
        self.unit = ""
        self._stop = stop or threading.Event()

    def begin(self, unit: str, total: int | None) -> None:
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
