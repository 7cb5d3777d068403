"""Writes the journal of a folder of collected examples, so that collecting goes on after any interruption.

A shard is whole before it is in the journal. What it holds is the collector's; here are lines, and who may write them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import IO, Any, Self

from evprof.core.errors import UserError
from evprof.core.files.held_file import locked
from evprof.core.files.whole_file import whole_file
from evprof.core.sample import Sample
from evprof.loaders.collection import (
    JOURNAL,
    Collection,
    Shard,
    failure_line,
    head_line,
    is_collection,
    read_collection,
    shard_line,
)
from evprof.loaders.paths import reason
from evprof.run.conversion.task import stamp

LOCK = "collection.lock"

ARRIVING = "arriving"
"""A folder within: examples of other processes, on their way into a shard; gone when the journal is closed."""


class CollectionJournal:
    """The journal of one folder, open for going on. A context manager; one process at a time holds a folder."""

    def __init__(self, folder: Path, settings: dict[str, Any], *, overwrite: bool = False) -> None:
        """Reads what is there. Raises UserError when the folder holds other things, or examples made otherwise."""
        self.folder = folder
        check_folder(folder)
        self._begins_anew = overwrite or not is_collection(folder)
        self.collection = Collection(folder, settings)
        if not self._begins_anew:
            self.collection = read_collection(folder)
            check_same(folder, self.collection.settings, settings)
        self._held = contextlib.ExitStack()
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        """Writes the journal anew, without what a kill may have left half a line of."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            busy = f"{self.folder}: another evprof collects into it; wait for it, or choose another folder."
            self._held.enter_context(locked(self.folder / LOCK, busy))
            if self._begins_anew:
                for path in (*self.folder.glob("shard-*.safetensors"), *self.folder.glob("shard-*.safetensors.part")):
                    path.unlink()
            shutil.rmtree(self.folder / ARRIVING, ignore_errors=True)
            # Rows that failed are tried again, and those that fail again are told again.
            self.collection.failed.clear()
            self._rewrite()
            self._file = (self.folder / JOURNAL).open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise unwritable(self.folder, error) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        with contextlib.suppress(OSError):
            self._rewrite()
        shutil.rmtree(self.folder / ARRIVING, ignore_errors=True)
        self._held.close()

    def add(self, shard: Shard) -> None:
        """Notes a shard that is in its place, new or grown. Raises UserError when it cannot be written."""
        self.collection.shards[shard.file] = shard
        for example in shard.examples:
            self.collection.failed.pop(example.key, None)
        self._write(shard_line(shard))

    def fail(self, key: str, sentence: str) -> None:
        """Notes a row that gave no example; the next call tries it again."""
        self.collection.failed[key] = sentence
        self._write(failure_line(key, sentence))

    def _write(self, line: str) -> None:
        if self._file is None:
            raise RuntimeError("a journal is entered before it is written")
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise unwritable(self.folder, error) from None

    def _rewrite(self) -> None:
        found = self.collection
        with whole_file(self.folder / JOURNAL) as stream:
            stream.write(head_line(found.settings))
            for name in sorted(found.shards):
                stream.write(shard_line(found.shards[name]))
            for key, sentence in found.failed.items():
                stream.write(failure_line(key, sentence))


def check_folder(folder: Path) -> None:
    """Raises UserError for a folder that holds other things than collected examples."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: is a file; examples are collected into a folder.")
        holds_others = folder.is_dir() and any(entry.name != LOCK for entry in folder.iterdir())
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: cannot be reached ({reason(error)}); check the path.") from None
    if holds_others and not is_collection(folder):
        raise UserError(f"{folder}: holds other things; give an empty or a new folder.")


def row_key(sample: Sample, more: str = "") -> str:
    """What tells a row from all others without reading its files: their paths, sizes and times, the clip, the question.

    Raises OSError when a file is not there.
    """
    paths = (sample.events_path, sample.video_path, sample.video_times_path, sample.rectify_path)
    stamps = [None if path is None else [os.path.abspath(path), *stamp(path)] for path in paths]
    clip = [sample.start_us, sample.duration_us, sample.video_offset_us]
    told = json.dumps([stamps, clip, sample.prompt, more])
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raises UserError when examples in the folder were made in another way than is asked for now."""
    for name in dict.fromkeys((*before, *now)):
        what, old, new = name, before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            part = next(key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key))
            what, old, new = f"{name} {part}", old.get(part), new.get(part)
        raise UserError(
            f"{folder}: its examples were made with another {what.replace('_', ' ')} ({_told(old)}, now {_told(new)}); "
            "ask as before, choose another folder, or begin anew with --overwrite."
        )


def _told(value: object) -> str:
    if isinstance(value, dict):
        return str(value.get("name", "another"))
    return "none" if value is None else str(value)[:80]


def unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(
        f"{folder}: cannot be written to ({reason(error)}); check its permissions and its free space; the same command "
        "then goes on."
    )
