"""`evprof show`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.sessions.export import run_numbers
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError

if TYPE_CHECKING:
    from evprof.core.run_log import RunLog

MOST_PRINTED = 1000
"""Runs that are printed one by one without being asked for."""


class ShowCommand(Command):
    """Print the runs of a saved session.

    Stages, tokens, figures, caches and texts, as they were measured; with --json the same document that `run` prints.
    Of more than 1,000 runs a line for each configuration, unless --runs says which are meant.
    """

    name = "show"
    examples = (
        CommandExample("evprof show scene.evprof", "print every run"),
        CommandExample("evprof show scene.evprof --rounds", "list every round of speculation, too"),
        CommandExample("evprof show suite.evprof --runs 17,40-42", "print some of very many runs"),
        CommandExample("evprof show scene.evprof --costs", "print what frames and other tokens cost"),
        CommandExample("evprof show scene.evprof --json", "print one JSON document"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The session."""
        parser.add_argument("session", metavar="S.evprof", help="the session")
        parser.add_argument("--runs", metavar="LIST", type=run_numbers, help="only these runs: 1,2,5-8")
        parser.add_argument("--rounds", action="store_true", help="list every round of speculation and why it ended")
        parser.add_argument(
            "--costs",
            action="store_true",
            help="print what tokens cost instead: KV caches by origin, each frame's share of times and bytes, what a "
            "second of input costs, and how stages grow over frames and clip lengths",
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Reads and prints; the file is not touched."""
        from evprof.cli.run.batches import print_batches
        from evprof.cli.run.text import print_configurations, print_runs
        from evprof.cli.sessions.cost_lines import print_costs
        from evprof.cli.sessions.mark_lines import print_marks
        from evprof.loaders.pictures.motion import motion_of
        from evprof.metrics.costs.document import scaling_document, second_document
        from evprof.metrics.document import session_document
        from evprof.session.facts import mark_documents, read_batches
        from evprof.session.opened import open_session

        session = open_session(Path(options.session))
        every, batches = list(session.runs.values()), read_batches(session.facts)
        runs = _chosen(every, options.runs, session.deleted)
        marks = mark_documents(session.facts, {run.run_id for run in runs})
        if console.is_json:
            document = session_document(
                runs,
                session.environment or None,
                others=every,
                batches=batches,
                marks=marks,
                is_streamed=True,
            )
            if options.costs:
                document["scaling"] = scaling_document(runs, session.facts)
                document["per_second"] = [
                    entry
                    for run in runs
                    for role, shown in run.frames.items()
                    if (entry := second_document(run, role, motion_of(tuple(frame.png for frame in shown))))
                ]
            console.document(document)
        elif runs and options.costs:
            print_costs(runs, session.facts, console)
        elif runs and options.runs is None and len(runs) > MOST_PRINTED:
            print_configurations(runs, console)
            rounds = ", and rounds with them" if options.rounds else ""
            some = f"`--runs {runs[0].run_id}-{runs[19].run_id}` prints some of them{rounds}"
            console.note(f"{len(runs):,} runs; {some}, `--json` all")
            print_marks(marks, console)
        elif runs:
            print_runs(runs, console, every, has_rounds=options.rounds)
            if options.runs is None:
                print_batches(batches, console)
            print_marks(marks, console)
        else:
            console.print("The session holds no runs.")
        return 0


def _chosen(runs: Sequence[RunLog], numbers: Collection[int] | None, deleted: Collection[int]) -> Sequence[RunLog]:
    """Those of these numbers, all without any. Raises UserError (exit code 2) where there is none."""
    found = [run for run in runs if numbers is None or run.run_id in numbers]
    if not found and numbers and (gone := [number for number in deleted if number in numbers]):
        raise UserError(f"--runs: run {gone[0]} was deleted.", exit_code=USAGE)
    if runs and not found:
        raise UserError(
            f"--runs: none of these runs is in the session; it holds {runs[0].run_id} to {runs[-1].run_id}.",
            exit_code=USAGE,
        )
    return found
