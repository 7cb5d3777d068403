"""One conversion: what is read, what is written where, and what became of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.plain import Plain
from evprof.core.sample import Sample
from evprof.run.conversion.recipe import ConversionRecipe

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
