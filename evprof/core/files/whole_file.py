"""Files and folders that are written whole or not at all: a reader never meets half of one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from evprof.core.errors import UserError
from evprof.core.files.new_file import make_part
from evprof.core.files.sqlite import SQLITE_MAGIC


def part_of(path: Path) -> Path:
    """Where what will be the folder `path` is written until it is whole."""
    return path.with_name(f"{path.name}.part")


def refuse_session(path: Path) -> None:
    """Raises UserError when a session lies at `path`: nothing we write may take its place."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        if stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC:
            raise UserError(f"'{path}' is a session; an export would destroy it. Name another file.")


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """A path to write a file at, for libraries that open files themselves; whole, it takes the place of `path`.

    The file there is new and empty, under a name that nobody can have put a link under. Raises OSError, and UserError
    where a session lies at `path`: nothing we write takes the place of measurements.
    """
    refuse_session(path)
    unfinished = make_part(path.parent)
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


@contextmanager
def whole_binary(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes take the place of `path` once all are written; before that, what was there stays.

    Raises OSError.
    """
    with whole_path(path) as unfinished, unfinished.open("wb") as stream:
        yield stream
        # Closed before it is renamed: Windows renames no open file, and the last bytes may be the ones that fail.
        stream.close()


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """An empty folder whose content takes the place of folder `path`, if there is one, at the end. Raises OSError."""
    unfinished = part_of(path)
    _remove_tree(unfinished)
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        _remove_tree(path)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove_tree(unfinished)
        raise


def _remove_tree(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Like `whole_binary` for text in UTF-8, compressed when the name ends in `.gz`; line ends stay as they are given.

    What a path may hold that is no text is written as escapes. Raises OSError.
    """
    with whole_binary(path) as raw, contextlib.ExitStack() as stack:
        binary = raw
        if path.suffix.lower() == ".gz":
            # No name and no time inside: the same runs give the same file.
            binary = cast("BinaryIO", stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0)))
        text = io.TextIOWrapper(binary, "utf-8", "backslashreplace", "\n")
        yield text
        # Not closed here: that would close what lies below it before its owners do.
        text.flush()
        text.detach()
