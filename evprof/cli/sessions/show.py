"""`evprof show`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console


class ShowCommand(Command):
    """Print the runs of a saved session.

    Stages, tokens, figures, caches and texts, as they were measured; with --json the same document that `run` prints.
    """

    name = "show"
    examples = (
        CommandExample("evprof show scene.evprof", "print every run"),
        CommandExample("evprof show scene.evprof --rounds", "list every round of speculation, too"),
        CommandExample("evprof show scene.evprof --costs", "print what frames and other tokens cost"),
        CommandExample("evprof show scene.evprof --json", "print one JSON document"),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """The session."""
        parser.add_argument("session", metavar="S.evprof", help="the session")
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
        from evprof.cli.run.text import print_runs
        from evprof.cli.sessions.cost_lines import print_costs
        from evprof.cli.sessions.mark_lines import print_marks
        from evprof.loaders.pictures.motion import motion_of
        from evprof.metrics.costs.document import scaling_document, second_document
        from evprof.metrics.document import session_document
        from evprof.run.kept_repeatability import spread_among
        from evprof.session.batches import read_batches
        from evprof.session.marks import mark_documents
        from evprof.session.summaries.opened import open_session

        session = open_session(Path(options.session))
        runs, batches = list(session.runs.values()), read_batches(session.facts)
        processes = spread_among(runs, session.facts)
        marks = mark_documents(session.facts, {run.run_id for run in runs})
        if console.is_json:
            document = session_document(
                runs,
                session.environment or None,
                batches=batches,
                processes=processes,
                marks=marks,
                is_streamed=True,
            )
            if options.costs:
                document["scaling"] = scaling_document(runs, session.facts, processes)
                document["per_second"] = [
                    entry
                    for run in runs
                    for role, shown in run.frames.items()
                    if (entry := second_document(run, role, motion_of(tuple(frame.png for frame in shown))))
                ]
            console.document(document)
        elif runs and options.costs:
            print_costs(runs, session.facts, console, processes)
        elif runs:
            print_runs(runs, console, has_rounds=options.rounds, processes=processes)
            print_batches(batches, console)
            print_marks(marks, console)
        else:
            console.print("The session holds no runs.")
        return 0
