"""`evprof bench repeatability`: measured, kept for later sessions, and told."""

from __future__ import annotations

import argparse
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.run.demo import BUNDLED_TARGET

SESSIONS = 5


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows and summary; a complete measurement is kept in the user's data folder."""
    from evprof.cli.terminal import program
    from evprof.core.request import RunRequest
    from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.benches.repeatability import RepeatabilityPlan, measure_repeatability
    from evprof.run.kept_repeatability import keep_repeatability

    request = RunRequest(
        "target",
        bundled_sample(),
        target=ModelChoice(options.target, options.device, options.dtype),
        settings=GenerationSettings(max_new_tokens=options.max_new_tokens, ignore_eos=True),
        keeps_frames=False,
    )
    request.validate()
    plan = RepeatabilityPlan(
        request,
        program.engine_argv(),
        sessions=SESSIONS if options.sessions is None else options.sessions,
        repeat=options.repeat,
        # Several processes of anything larger may not fit beside each other.
        in_turn=options.target == BUNDLED_TARGET,
    )
    document = measure_repeatability(plan, console.note)
    entry = document.pop("kept")
    if entry is not None:
        try:
            console.note(f"kept for later sessions: {keep_repeatability(entry)}")
        except OSError as error:
            console.warn(f"It could not be kept for later sessions: {error.strerror or error}.")
    return document
