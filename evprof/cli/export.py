"""`evprof export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import Command
from evprof.cli.console import Console
from evprof.export.files import FORMATS


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
        from evprof.export.files import write_export

        runs = read_runs(options.session)
        for path in write_export(runs, options.format, options.output, tell=console.note):
            console.note(f"saved {path}")
        return 0
