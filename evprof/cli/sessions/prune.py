"""`evprof prune`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.sessions.export import run_numbers
from evprof.cli.sessions.rewriting import check_new, rewritten
from evprof.cli.terminal.console import Console
from evprof.core.errors import CANCELLED, USAGE, UserError
from evprof.core.units import bytes_text, count_text


class PruneCommand(Command):
    """Make a session smaller: drop pictures, logs or deleted runs and keep all figures.

    A run without its log still lists, compares and reports; what needs the log (tokens in time, the timeline, parts of
    stages) is gone, and the run says so. With -o the smaller session is a new file; with --in-place it takes the place
    of the old one once it is whole, and what was dropped cannot be brought back.
    """

    name = "prune"
    examples = (
        CommandExample("evprof prune scene.evprof --frames -o small.evprof", "drop the pictures that models saw"),
        CommandExample(
            "evprof prune suite.evprof --logs --runs 1-900 -o small.evprof", "keep only figures of some runs"
        ),
        CommandExample("evprof prune scene.evprof --deleted --in-place", "let deleted runs go for good"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The session, what is dropped, of which runs, and the place."""
        parser.add_argument("session", metavar="S.evprof", type=Path, help="the session")
        parser.add_argument("--frames", action="store_true", help="drop the pictures that models saw")
        parser.add_argument("--logs", action="store_true", help="drop everything but figures and facts, pictures too")
        parser.add_argument("--deleted", action="store_true", help="drop runs that were deleted, which stay otherwise")
        parser.add_argument("--runs", metavar="LIST", type=run_numbers, help="only of these runs: 1,2,5-8")
        parser.add_argument("--cell", metavar="NAME", action="append", help="only of this configuration (repeatable)")
        parser.add_argument("-o", "--output", metavar="S.evprof", type=Path, help="the smaller session, a new file")
        parser.add_argument("--in-place", action="store_true", help="put it in the place of the session itself")
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Prunes, and says what became of it."""
        from evprof.run.rewriting.pruning import PrunePlan, prune_session

        if (options.output is None) != options.in_place:
            raise UserError("Say where the smaller session goes: -o NEW.evprof, or --in-place.", exit_code=USAGE)
        if not (options.frames or options.logs or options.deleted):
            raise UserError("Say what is to be dropped: --frames, --logs or --deleted.", exit_code=USAGE)
        output = options.session if options.in_place else options.output
        if not options.in_place:
            check_new(output)
        plan = PrunePlan(options.frames, options.logs, options.deleted, options.runs, options.cell)
        done = rewritten(console, lambda stop, watch: prune_session(options.session, output, plan, stop, watch))
        if done is None:
            return CANCELLED
        if console.is_json:
            console.document({"schema_version": 1, **done.to_json()})
            return 0
        console.print(
            f"{count_text(done.runs, 'run')}: {done.without_logs:,} without a log, {done.without_frames:,} "
            f"without pictures; {count_text(done.removed, 'deleted run')} gone"
        )
        console.print(f"{bytes_text(done.bytes_before)} before, {bytes_text(done.bytes_after)} now")
        console.note(f"session saved: {done.path}")
        return 0
