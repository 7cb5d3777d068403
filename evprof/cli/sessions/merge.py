"""`evprof merge`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.errors import CANCELLED, USAGE, Cancelled, UserError
from evprof.core.units import count_text

if TYPE_CHECKING:
    from evprof.run.rewriting.merging import MergedSource


class MergeCommand(Command):
    """Join sessions into a new one.

    Runs are numbered on, session after session, and so is what refers to them: baselines, marks, saved comparisons.
    Engine processes keep their names, so that intervals know them apart. Rows of a configuration that two sessions have
    become further repeats. Suites stay what they were: the new session tells which of its runs are which suite's.
    The sessions are only read; the new one is there whole, or not at all.
    """

    name = "merge"
    examples = (
        CommandExample("evprof merge monday.evprof tuesday.evprof -o both.evprof", "join two sessions"),
        CommandExample(
            "evprof merge results/*.evprof -o all.evprof --json", "join many, and print what became of each"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The sessions and the new one."""
        parser.add_argument(
            "sessions", metavar="S.evprof", nargs="+", type=Path, help="sessions to join, in this order"
        )
        parser.add_argument("-o", "--output", metavar="S.evprof", type=Path, required=True, help="the new session")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Joins, and says which numbers the runs have now."""
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
    from evprof.run.processes.interrupts import stop_flag
    from evprof.run.rewriting.merging import merge_sessions

    with stop_flag() as stop, Progress(console) as progress:

        def show(what: str, done: int, total: int) -> None:
            if console.is_terminal or console.is_followed:
                progress.turn_to(what, "runs", total)
                progress.reach(done)

        return merge_sessions(paths, output, stop, show)
