"""`evprof run`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.cli.command import Command, CommandExample, advanced
from evprof.cli.options import add_json_option
from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError

if TYPE_CHECKING:
    from evprof.core.records import BatchRow
    from evprof.core.request import RunRequest

_MOST_AT_ONCE = 256


class RunCommand(Command):
    """Run models on a sample and save what was measured.

    Without --events and --video the bundled sample is used. A run that began is always saved and printed, whatever
    became of it. MODEL is a checkpoint folder, a hub id, or a name that `evprof inspect` lists: a bundled model, or a
    true shape with random weights for timing (random:…).

    Ctrl-C stops cleanly and keeps what was measured; a second Ctrl-C ends the program.
    """

    name = "run"
    examples = (
        CommandExample("evprof run", "run the bundled models on the bundled sample"),
        CommandExample(
            'evprof run --events scene.npy --prompt "What is in the scene?" -o scene.evprof',
            "ask a question about an event recording",
        ),
        CommandExample(
            "evprof run --events scene.npy --video scene.mp4 --mode speculative --gamma 4",
            "let the event model draft for the video model",
        ),
        CommandExample(
            "evprof run --video scene.mp4 --target checkpoints/Video-LLaVA-7B --device cuda --dtype bfloat16",
            "run a checkpoint of your own on a GPU",
        ),
        CommandExample(
            "evprof run --events scene.raw --start-ms 1000 --duration-ms 500 --warmup 1 --repeat 5",
            "measure half a second of a longer recording five times",
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        from evprof.cli.run.options import add_run_options

        add_run_options(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="S.evprof",
            type=Path,
            help="session to write or to append to (default: a new one in the user's data folder)",
        )
        advanced(
            parser.add_argument(
                "--batches", metavar="N,N,…", help="after the runs, measure the speed with that many prompts at once"
            )
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        from evprof.cli import preflight
        from evprof.cli.run import recorded_session as recorded
        from evprof.cli.run.options import idle_sentences, request_of

        request, sizes = request_of(options), _batch_sizes(options.batches)
        if options.output is not None:
            recorded.check_place(options.output)
        preflight.check_request(request)
        for sentence in idle_sentences(options, request):
            console.warn(sentence)
        if options.output is None:
            recorded.tidy_autosaved(console)
        path = options.output or recorded.default_session_path()
        with recorded.reserved_place(path):
            sessions, timeout_s = options.sessions or 1, options.timeout
            with recorded.RecordedSession(path, console, sessions=sessions, timeout_s=timeout_s) as session:
                session.run(request)
            recorded.note_models(session, request)
            is_whole = bool(sizes) and not session.problem
            batches = _measure_batches(session.path, request, sizes, console) if is_whole else []
        return recorded.conclude(session, console, batches)


def _batch_sizes(text: str | None) -> tuple[int, ...]:
    """`1,2,4` as numbers; none for None. Raises UserError (exit code 2)."""
    if text is None:
        return ()
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and 1 <= int(word) <= _MOST_AT_ONCE for word in words):
        raise UserError(
            f"--batches takes sizes from 1 to {_MOST_AT_ONCE}, such as 1,2,4, not '{text}'.", exit_code=USAGE
        )
    return tuple(dict.fromkeys(int(word) for word in words))


def _measure_batches(session: Path, request: RunRequest, sizes: Sequence[int], console: Console) -> list[BatchRow]:
    """Measures the request's models in batches about its sample and adds the rows to the session, which must be closed.

    Reports what cannot be measured; Ctrl-C stops it and keeps the models that were done.
    """
    from engines.suites.document_facts import batch_facts
    from evprof.core.errors import Cancelled
    from evprof.core.records import BATCHES
    from evprof.run.processes.interrupts import stop_flag
    from evprof.session.facts import add_facts

    rows: list[BatchRow] = []
    with stop_flag() as stop:
        for role in request.reading_roles:
            console.note(f"{role}: measuring batches of {', '.join(map(str, sizes))}")
            try:
                rows += batch_facts(request, role, sizes, stop)
            except Cancelled:
                console.warn("stopped; the batches that were measured are kept")
                break
            except UserError as error:
                console.warn(f"No batches of the {role}: {error}")
    if rows:
        add_facts(session, {BATCHES: [row.to_json() for row in rows]})
    return rows
