"""`evprof import` and `evprof session`: sessions made of result files, and of other sessions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample, add_command, add_commands
from evprof.cli.options import add_json_option
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, USAGE, Cancelled, UserError
from evprof.core.units import count_text, ms_text

if TYPE_CHECKING:
    from evprof.run.legacy_import import ImportedFile
    from evprof.run.merging import MergedSource


class ImportCommand(Command):
    """Read result files of other programs into a session.

    These are earlier benchmark scripts, vLLM, SGLang and AIPerf. Every row or request becomes a run that opens,
    compares and reports like one measured here, labelled by what its times really cover; failed rows stay failed. What
    is wrong with a file is listed. Families are recognized by content: see docs/importing.md.
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
        parser.add_argument(
            "files", metavar="FILE.json", nargs="+", type=Path, help="result files (see docs/importing.md)"
        )
        parser.add_argument(
            "-o", "--output", metavar="S.evprof", type=Path, required=True, help="a new session, or one to append to"
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
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
    counts = [count_text(file.rows, "row"), count_text(file.runs, "run")]
    counts += [f"{file.failed} failed"] if file.failed else []
    counts += [f"{file.warmups} warm-up"] if file.warmups else []
    console.print(f"{file.path}: {file.family}, {', '.join(counts)}, {ms_text(file.duration_ms)}")
    for label, count in file.cells.items():
        console.print(f"  {label}: {count_text(count, 'run')}")
    console.print(f"  problems: {len(file.problems) or 'none'}")
    for problem in file.problems:
        console.print(f"  - {problem}")


class SessionCommand(Command):
    """Work on whole sessions: merge joins several into a new one."""

    name = "session"
    examples = (
        CommandExample("evprof session merge monday.evprof tuesday.evprof -o both.evprof", "join two sessions"),
        CommandExample(
            "evprof session merge results/*.evprof -o all.evprof --json", "join many, and print the new run numbers"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        choices = add_commands(parser, "action", is_required=True)
        entry = add_command(choices, "merge", _merge.__doc__ or "", self.examples)
        entry.add_argument("sessions", metavar="S.evprof", nargs="+", type=Path, help="sessions to join, in this order")
        entry.add_argument("-o", "--output", metavar="S.evprof", type=Path, required=True, help="the new session")
        add_json_option(entry)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        return _merge(options, console)


def _merge(options: argparse.Namespace, console: Console) -> int:
    """Join sessions into a new one.

    Run numbers continue from session to session, and so do the references to them: baselines and marks.
    Engine processes keep their names, so that intervals tell them apart. Rows of a configuration that two sessions
    contain become further repeats. Suites remain what they were: the new session records which run belongs to which
    suite. The sessions are only read; the new one is there whole, or not at all.
    """
    _check_new(options.output)
    try:
        sources = _merged(options.sessions, options.output, console)
    except Cancelled:
        console.note("stopped; nothing was written")
        return CANCELLED
    if console.is_json:
        runs = sum(source.runs for source in sources)
        listed = [source.to_json() for source in sources]
        console.document({"schema_version": 1, "session": str(options.output), "runs": runs, "sources": listed})
        return 0
    for source in sources:
        deleted = f" ({source.deleted:,} of them deleted)" if source.deleted else ""
        console.print(
            f"{source.path}: {count_text(source.runs, 'run')}{deleted}, now {source.first_run} to {source.last_run}"
        )
    console.note(f"session saved: {options.output}")
    return 0


def _check_new(output: Path) -> None:
    """Raises UserError unless a new session may be made at `output`."""
    if output.suffix.lower() != ".evprof":
        raise UserError(f"-o: a session's name ends in .evprof; name it '{output.stem}.evprof'.", exit_code=USAGE)
    if output.exists():
        raise UserError(f"-o: '{output}' exists already; name another file.", exit_code=USAGE)


def _merged(paths: list[Path], output: Path, console: Console) -> list[MergedSource]:
    """Merges with progress shown. Raises Cancelled on Ctrl-C; nothing is written then."""
    from evprof.run.merging import merge_sessions
    from evprof.run.processes.interrupts import stop_flag

    with stop_flag() as stop, Progress(console) as progress:

        def show(what: str, done: int, total: int) -> None:
            if console.is_terminal or console.is_followed:
                progress.turn_to(what, "runs", total)
                progress.reach(done)

        return merge_sessions(paths, output, stop, show)
