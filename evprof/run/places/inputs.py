"""A suite's inputs on the machines that read them: where they lie if those see the same there, else copied once.

The content's hash decides whether it is the same. Copies lie in the cache folder by hash, for every engine of a machine
and every later suite.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.content import content_files, content_hash
from evprof.loaders.paths import reason

PIECE_BYTES = 16 << 20
"""What is sent at a time."""

INPUT_PATHS = ("events_path", "video_path", "video_times_path", "rectify_path")
"""Fields of a sample that name files."""


@dataclass(frozen=True)
class InputListing:
    """An input as its owner has it: `files` are sizes by relative name, of a file itself its own name alone."""

    content_hash: str
    is_folder: bool
    files: dict[str, int]


class InputSource(Protocol):
    """Where inputs are had from."""

    def listing(self, path: str) -> InputListing:
        """What the input at `path` is. Raises UserError."""

    def piece(self, path: str, name: str, offset: int) -> bytes:
        """PIECE_BYTES of one of its files, fewer at its end. Raises UserError."""


class OwnInputs:
    """The source, where the suite was started: gives the inputs of its samples and no other file."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._paths = {
            path for sample in samples for name in INPUT_PATHS if (path := getattr(sample, name)) is not None
        }

    def listing(self, path: str) -> InputListing:
        """Reads it through for its hash."""
        files = self._files(path)
        return InputListing(
            content_hash(path), Path(path).is_dir(), {name: file.stat().st_size for name, file in files.items()}
        )

    def piece(self, path: str, name: str, offset: int) -> bytes:
        """Reads it."""
        with self._files(path)[name].open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTES)

    def _files(self, path: str) -> dict[str, Path]:
        if path not in self._paths:
            raise UserError(f"{path}: is no input of this suite.")
        return content_files(path)


class InputCopies:
    """The same inputs on another machine. `sent_bytes` counts what had to be copied."""

    def __init__(self, source: InputSource, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._places: dict[str, str] = {}
        self.sent_bytes = 0

    def sample_here(self, sample: Sample) -> Sample:
        """The sample with paths that hold its inputs on this machine. Raises UserError."""
        found: dict[str, Any] = {
            name: self._place(path) for name in INPUT_PATHS if (path := getattr(sample, name)) is not None
        }
        return replace(sample, **found)

    def _place(self, path: str) -> str:
        if path not in self._places:
            listing = self._source.listing(path)
            self._places[path] = path if _is_same(path, listing) else self._copied(path, listing)
        return self._places[path]

    def _copied(self, path: str, listing: InputListing) -> str:
        name = Path(path).name
        place = self._folder / listing.content_hash.replace(":", "-")
        try:
            if not place.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                part = Path(tempfile.mkdtemp(prefix=f"{place.name}-", suffix=".part", dir=self._folder))
                try:
                    self._copy(path, listing, part / name if listing.is_folder else part)
                    _put_in_place(part, place)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be copied to {self._folder} of this machine ({reason(error)}); free some space, or "
                "put it where both machines see it under one path."
            ) from None
        return str(place / name)

    def _copy(self, path: str, listing: InputListing, folder: Path) -> None:
        for name, size in listing.files.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise UserError(f"{path}: holds a file of the name '{name}'; rename it.")
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                while file.tell() < size:
                    piece = self._source.piece(path, name, file.tell())
                    if not piece:
                        raise UserError(f"{path}: became shorter while it was copied; leave inputs as they are.")
                    file.write(piece)
                    self.sent_bytes += len(piece)


def _is_same(path: str, listing: InputListing) -> bool:
    """Whether what lies there on this machine is the input; what has other sizes is not read."""
    try:
        sizes = {name: file.stat().st_size for name, file in content_files(path).items()}
        return sizes == listing.files and content_hash(path) == listing.content_hash
    except (UserError, OSError, ValueError):
        return False


def _put_in_place(part: Path, place: Path) -> None:
    """Renames, unless somebody else was first. Raises OSError."""
    try:
        part.rename(place)
    except OSError:
        if not place.is_dir():
            raise
