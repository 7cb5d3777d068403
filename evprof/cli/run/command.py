"""`evprof run`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evprof.cli.command import Command, add_json_option
from evprof.cli.parser import CommandExample
from evprof.cli.terminal.console import Console


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
        """Inputs, generation, machine, and where the session goes."""
        from evprof.cli.run.options import add_input_options, add_machine_options
        from evprof.cli.setting_options import add_model_options, add_setting_options

        add_input_options(parser)
        add_setting_options(parser)
        add_model_options(parser)
        add_machine_options(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="S.evprof",
            type=Path,
            help="session to write or to append to (default: a new one in the user's data folder)",
        )
        parser.add_argument(
            "--batches", metavar="N,N,…", help="after the runs, measure the speed with that many prompts at once"
        )
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Carries the request out; the exit code follows the status of its runs."""
        from evprof.cli.preflight import request as preflight
        from evprof.cli.run.batches import batch_sizes, measure_batches
        from evprof.cli.run.options import idle_sentences, request_of
        from evprof.cli.run.recorded_session import (
            RecordedSession,
            check_place,
            conclude,
            default_session_path,
            note_models,
            reserved_place,
            tidy_autosaved,
        )

        request, sizes = request_of(options), batch_sizes(options.batches)
        if options.output is not None:
            check_place(options.output)
        preflight.check_request(request)
        for sentence in idle_sentences(options, request):
            console.warn(sentence)
        if options.output is None:
            tidy_autosaved(console)
        path = options.output or default_session_path()
        with reserved_place(path):
            with RecordedSession(path, console, sessions=options.sessions or 1, timeout_s=options.timeout) as session:
                session.run(request)
            note_models(session, request)
            batches = measure_batches(session.path, request, sizes, console) if sizes and not session.problem else []
        return conclude(session, console, batches)
