"""What one adapter is worth on given samples: runs with it beside plain runs of the same questions, in turns.

It asks an engine for runs and reads their records; what the adapter predicts without running is the engines' own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from evprof.core.errors import Cancelled, UserError
from evprof.core.protocols import Engine, StopFlag
from evprof.core.records import TARGET
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import AdapterInfo
from evprof.metrics.speculation.clinic import per_position
from evprof.run.benches.choice import check_repeat
from evprof.run.benches.drafting import (
    DraftingContender,
    DraftingTurn,
    acceptance_of,
    contenders,
    costs_of,
    measured,
    plain_request,
    token_match,
    turn_of,
)
from evprof.run.processes.runner import finished_run


@dataclass(frozen=True)
class AdapterPlan:
    """`samples` are asked their own prompts, `repeat` pairs of runs each."""

    adapter: AdapterInfo
    samples: Sequence[Sample]
    draft: ModelChoice
    target: ModelChoice
    gamma: int = 5
    repeat: int = 3
    max_new_tokens: int = 128
    frames: int | None = None
    event_frames: int | None = None

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers that mean nothing."""
        check_repeat(self.repeat)
        if not self.samples:
            raise UserError("There is no sample to evaluate on.")
        self.requests(self.samples[0])[1].settings.validate()

    def requests(self, sample: Sample) -> tuple[RunRequest, RunRequest]:
        plain = plain_request(sample, self.draft, self.target, self.max_new_tokens)
        plain = replace(plain, settings=replace(plain.settings, frames=self.frames, event_frames=self.event_frames))
        return plain, contender_of(self.adapter).request(plain, self.gamma)


def contender_of(adapter: AdapterInfo) -> DraftingContender:
    """The adapter as one that drafts a chain, or for kv as the mode that takes it."""
    return next(one for one in contenders([adapter]) if one.key == adapter.kind)


def measure_adapter(
    engine: Engine, plan: AdapterPlan, stop: StopFlag, done: Callable[[int, int], None] = lambda *_: None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Environment and figures over all samples; `done` hears so many of so many pairs.

    Raises UserError when a run fails, Cancelled when stopped before a single sample was measured; stopped later, the
    figures are of the samples so far, and `samples` says how many.
    """
    plan.validate()
    turns: list[DraftingTurn] = []
    total = len(plan.samples) * plan.repeat
    samples = 0
    run = partial(finished_run, engine, stop=stop)
    for request in plan.requests(plan.samples[0]):  # so that loading and first calls are in no measured run
        first = run(request)
    try:
        for sample in plan.samples:
            made = []
            for repeat in range(plan.repeat):
                made.append(turn_of(run, *plan.requests(sample), repeat))
                done(len(turns) + len(made), total)
            turns += made
            samples += 1
    except Cancelled:
        if not turns:
            raise
    return first.info.environment, _figures(plan, turns, samples)


def _figures(plan: AdapterPlan, turns: Sequence[DraftingTurn], samples: int) -> dict[str, Any]:
    # Greedy answers come out the same every time: repeats measure times, and count tokens once.
    runs = [turn.drafted for turn in turns[:: plan.repeat]]
    costs = costs_of(turns)
    facts = turns[0].plain.info.models[TARGET]
    is_lossless = contender_of(plan.adapter).is_lossless
    return {
        "samples": samples,
        "repeat": plan.repeat,
        "gamma": plan.gamma if is_lossless else None,
        "max_new_tokens": plan.max_new_tokens,
        "device": facts.device,
        "dtype": facts.dtype,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "is_lossless": is_lossless,
        **acceptance_of(runs),
        "acceptance_per_position": [entry.unconditional for entry in per_position(*runs)],
        "draft_cost": None if costs is None else costs.draft,
        "verify_cost": None if costs is None else costs.verify,
        "step_ms": None if costs is None else costs.step_ms,
        **measured(turns),
        "agreement": None if is_lossless else token_match(turns),
    }
