"""`evprof bench repeatability`."""

from __future__ import annotations

import argparse
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.run.demo import BUNDLED_TARGET

SESSIONS = 5


def measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows and summary."""
    from evprof.cli.terminal import program
    from evprof.core.request import RunRequest
    from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.benches.repeatability import RepeatabilityPlan, measure_repeatability

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
    return measure_repeatability(plan, console.note)
