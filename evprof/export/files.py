"""Writes runs to files in the formats that other programs read; whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.errors import UserError

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog

FORMATS = ("chrome", "csv", "json")


def write_export(
    runs: Sequence[RunLog], kind: str, path: Path, *, tell: Callable[[str], object] | None = None
) -> list[Path]:
    """Writes `runs` in one of FORMATS; returns the files. Raises UserError when the place cannot be used.

    `tell` is given a sentence for each thing that the format cannot hold.
    """
    refuse_session(path)
    try:
        if kind == "csv":
            from evprof.export.tables import write_tables

            return write_tables(runs, path)
        document = _document(runs, kind)
        if kind == "chrome" and tell is not None:
            from evprof.export.chrome_trace import left_out_sentences

            for sentence in left_out_sentences(document):
                tell(sentence)
        return [_write_json(document, path)]
    except OSError as error:
        raise UserError(f"'{path}' cannot be written ({error.strerror or error}); name another place.") from error


def _document(runs: Sequence[RunLog], kind: str) -> dict[str, Any]:
    if kind == "chrome":
        from evprof.export.chrome_trace import chrome_trace

        return chrome_trace(runs)
    from evprof.metrics.document import session_document

    return session_document(runs)


def _write_json(document: dict[str, Any], path: Path) -> Path:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    # A path may hold bytes that are no text; JSON can say them only as escapes.
    data = text.encode("utf-8", "backslashreplace")
    return _replace(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_whole(path: Path, data: bytes) -> Path:
    """Writes a file whole or not at all: a reader never meets half of it. Raises UserError when it cannot be."""
    try:
        return _replace(path, data)
    except OSError as error:
        raise UserError(f"'{path}' cannot be written ({error.strerror or error}); name another place.") from error


def _replace(path: Path, data: bytes) -> Path:
    unfinished = path.with_name(f"{path.name}.part")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    return path


def refuse_session(path: Path) -> None:
    """Raises UserError when a session lies at `path`: nothing we write may take its place."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        if stream.read(15) == b"SQLite format 3":
            raise UserError(f"'{path}' is a session; an export would destroy it. Name another file.")
