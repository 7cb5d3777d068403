"""`evprof import`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.units import count_text, ms_text

if TYPE_CHECKING:
    from evprof.run.legacy_import import ImportedFile


class ImportCommand(Command):
    """Read result files of other programs into a session.

    These are earlier benchmark scripts, vLLM, SGLang and AIPerf. Every row or request becomes a run that opens,
    compares and reports like one measured here, labelled by what its times really cover; failed rows stay failed, and
    files of statistics alone are kept for reports. What is wrong with a file is listed. Families are told by content:
    see docs/importing.md.
    """

    name = "import"
    examples = (
        CommandExample("evprof import results.json -o earlier.evprof", "read one result file"),
        CommandExample("evprof import profile_export.jsonl -o server.evprof", "read AIPerf's records of a server"),
        CommandExample(
            "evprof import results/*.json -o earlier.evprof --json", "read many and print what came of each"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The files and the session."""
        parser.add_argument(
            "files", metavar="FILE.json", nargs="+", type=Path, help="result files (see docs/importing.md)"
        )
        parser.add_argument(
            "-o", "--output", metavar="S.evprof", type=Path, required=True, help="a new session, or one to append to"
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Imports, and says what came of each file."""
        from evprof.cli.run.recorded_session import check_place
        from evprof.run.legacy_import import import_files

        check_place(options.output)
        with Progress(console) as progress:

            def tell(path: Path, runs: int, rows: int) -> None:
                progress.turn_to(path.name, "rows", rows)
                progress.reach(runs)

            summary = import_files(options.files, options.output, tell if console.is_terminal else None)
        if console.is_json:
            console.document(
                {
                    "schema_version": 1,
                    "session": str(summary.session),
                    "runs": summary.runs,
                    "files": [file.to_json() for file in summary.files],
                }
            )
            return 0
        for file in summary.files:
            _print_file(file, console)
        console.note(f"session saved: {summary.session}")
        return 0


def _print_file(file: ImportedFile, console: Console) -> None:
    counts = [count_text(file.rows, "row"), count_text(file.runs, "run")] if file.runs else ["statistics and no runs"]
    counts += [f"{file.failed} failed"] if file.failed else []
    counts += [f"{file.warmups} warm-up"] if file.warmups else []
    console.print(f"{file.path}: {file.family}, {', '.join(counts)}, {ms_text(file.duration_ms)}")
    for label, count in file.cells.items():
        console.print(f"  {label}: {count_text(count, 'run')}")
    console.print(f"  problems: {len(file.problems) or 'none'}")
    for problem in file.problems:
        console.print(f"  - {problem}")
