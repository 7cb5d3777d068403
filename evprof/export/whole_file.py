"""Files that are written whole or not at all: a reader never meets half of one."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast


@contextmanager
def whole_binary(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes take the place of `path` once all are written; before that, what was there stays.

    Raises OSError.
    """
    unfinished = path.with_name(f"{path.name}.part")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise


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
