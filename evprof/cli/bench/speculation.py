"""What `evprof bench speculation` measures: every drafter there is, on held-out scenes or a list of samples."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.core.errors import USAGE, UserError
from evprof.core.sample import Sample
from evprof.core.suggestions import guess_among
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.benches.drafting import DraftingContender, contenders


def measure_drafters(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Environment, rows, sweep, summary and what is known of the pair. Ctrl-C stops it and keeps the rows so far."""
    from evprof.cli.run.recorded_session import make_engine
    from evprof.loaders.bundled_evaluation import pair_evaluation
    from evprof.run.benches.speculation import SpeculationPlan, measure_speculation
    from evprof.run.processes.interrupts import stop_flag

    chosen = _chosen(options)
    target = ModelChoice(options.target, options.device, options.dtype)
    from engines.speculation.near_ties import FlipJudge

    plan = SpeculationPlan(
        _samples(options),
        chosen,
        ModelChoice(options.draft, options.device, options.dtype),
        target,
        repeat=options.repeat,
        max_new_tokens=options.max_new_tokens,
        step=options.step,
        judge=FlipJudge(target),
    )
    with stop_flag() as stop:
        found = measure_speculation(make_engine(), plan, stop, console.note)
    return found | {"pair": pair_evaluation(options.target, options.draft)}


def _chosen(options: argparse.Namespace) -> list[DraftingContender]:
    from evprof.loaders.adapters import bundled_adapters, read_adapter

    adapters = [adapter for adapter in bundled_adapters() if _fits(adapter.target, options.target)]
    adapters += [read_adapter(path) for path in options.adapter or ()]
    known = contenders(adapters)
    if not options.only:
        return known
    found = [one for one in known if any(word in (one.key, one.speculation.drafter) for word in options.only)]
    if not found:
        guess = guess_among(options.only[0], (one.key for one in known))
        raise UserError(f"--only: there is no drafter {' or '.join(options.only)}{guess}", exit_code=USAGE)
    return found


def _fits(trained_for: str, target: str) -> bool:
    return Path(trained_for).name == Path(target).name


def _samples(options: argparse.Namespace) -> Sequence[Sample]:
    """The samples of `--data`, or so many held-out scenes; the bundled samples where `--scenes` is 0."""
    from evprof.loaders.bundled import bundled_samples, held_out_scenes
    from evprof.loaders.manifests.manifest import read_manifest

    if options.data:
        return read_manifest(options.data).samples
    if options.scenes == 0:
        return bundled_samples()
    scenes = held_out_scenes()
    if not 0 < options.scenes <= len(scenes):
        raise UserError(
            f"--scenes: {len(scenes)} held-out scenes are bundled, not {options.scenes}; "
            "to measure on other samples, name a list of them with --data.",
            exit_code=USAGE,
        )
    return scenes[: options.scenes]
