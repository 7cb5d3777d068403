"""Files and folders that are written whole or not at all: a reader never meets half of one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from evprof.core.errors import UserError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def hidden_name() -> str:
    """A name that nobody can have put a link under."""
    return f".evprof-{secrets.token_hex(8)}.part"


def is_part(path: Path) -> bool:
    """Whether `path` has such a name: a killed program's, where nobody writes it."""
    return path.name.startswith(".evprof-") and path.suffix == ".part"


def make_part(folder: Path) -> Path:
    """A new empty file in `folder`, with the rights that the user's other files get. Raises OSError."""
    path = folder / hidden_name()
    os.close(os.open(path, _NEW, 0o666))
    return path


def put_new(path: Path, content: bytes) -> None:
    """Makes the file `path` with all of `content`. Raises FileExistsError where something is already, OSError."""
    part = make_part(path.parent)
    try:
        part.write_bytes(content)
        try:
            os.link(part, path)
        except OSError:  # a file system without hard links
            if path.exists():
                raise FileExistsError(f"{path} exists") from None
            os.rename(part, path)
    finally:
        part.unlink(missing_ok=True)


def regular_file(path: str | Path, remedy: str = "copy it to one first") -> Path:
    """The path of an existing ordinary file; links are followed. Raises UserError for a missing file, a folder, a pipe,
    a device or a socket, with `remedy` as the way out where the path is there."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; check the path.") from None
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path}: cannot be reached ({words}); check the path and its permissions.") from None
    if stat.S_ISDIR(mode):
        raise UserError(f"{path}: is a folder, where a file is expected; name the file in it.")
    if not stat.S_ISREG(mode):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise UserError(f"{path}: is {kind}, no ordinary file; {remedy}.")
    return Path(path)


SQLITE_MAGIC = b"SQLite format 3\x00"
"""Their first bytes."""

APPLICATION_ID_AT = 68
"""Where the big-endian number of four bytes stands that tells whose they are."""


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
