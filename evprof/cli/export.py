"""`evprof export`."""

from __future__ import annotations

import argparse
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evprof.cli.command import Command
from evprof.cli.console import Console
from evprof.core.errors import UserError

FORMATS = ("chrome", "csv", "json")


class Export(Command):
    """Write a session's runs in another format.

    chrome: a trace that Perfetto and chrome://tracing open (name it .json or .json.gz).
    csv: with PATH ending in .csv one row per run, otherwise a folder with runs, stages, tokens, rounds and KV cache.
    json: the document that `evprof show --json` prints.
    """

    name = "export"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Session, format and place."""
        parser.add_argument("session", metavar="S.evprof")
        parser.add_argument("--format", choices=FORMATS, required=True, help="see above")
        parser.add_argument("-o", "--output", metavar="PATH", type=Path, required=True, help="file or folder to write")

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Reads the session and writes the files."""
        from evprof.cli.recorded_session import read_runs

        runs = read_runs(options.session)
        for path in write_export(runs, options.format, options.output, tell=console.note):
            console.note(f"saved {path}")
        return 0


def write_export(runs: list[Any], kind: str, path: Path, *, tell: Callable[[str], object] | None = None) -> list[Path]:
    """Writes `runs` (RunLogs) in one of FORMATS; returns the files. Raises UserError when the place cannot be used.

    `tell` is given a sentence for each thing that the format cannot hold.
    """
    _refuse_session(path)
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
        raise UserError(f"-o: '{path}' cannot be written: {error.strerror or error}.") from error


def _document(runs: list[Any], kind: str) -> dict[str, Any]:
    if kind == "chrome":
        from evprof.export.chrome_trace import chrome_trace

        return chrome_trace(runs)
    from evprof.metrics.document import session_document

    return session_document(runs)


def _write_json(document: dict[str, Any], path: Path) -> Path:
    """Whole or not at all: a reader never meets half a file."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    data = text.encode("utf-8")
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    os.replace(unfinished, path)
    return path


def _refuse_session(path: Path) -> None:
    if not path.is_file():
        return
    with path.open("rb") as stream:
        if stream.read(15) == b"SQLite format 3":
            raise UserError(f"-o: '{path}' is a session; an export would destroy it. Name another file.")
