"""`evprof bench speculation`: every drafter against plain decoding of the same questions, in turns in one process.

First each drafter is tried at all draft lengths, and its prediction held against what it takes; then all of them at
their best, on every sample. It asks an engine for runs and reads their records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from evprof.core.errors import Cancelled, UsageError, UserError
from evprof.core.protocols import Engine, StopFlag
from evprof.core.records import TARGET
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.units import times_text
from evprof.core.vocabulary.drafters import MODEL
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.adapters import AdapterInfo
from evprof.metrics.speculation.clinic import per_position
from evprof.metrics.speculation.payoff import Prediction
from evprof.run.benches.choice import check_repeat
from evprof.run.benches.drafting import (
    DraftingContender,
    DraftingTurn,
    acceptance_of,
    contenders,
    measured,
    plain_request,
    predicted,
    token_match,
    turn_of,
    unlike,
)
from evprof.run.processes.runner import finished_run
from evprof.run.turns import TurnSchedule

FlipJudge = Callable[[RunRequest, Sequence[int], Sequence[int]], float]
"""The plain request, its answer and one that differs -> how far apart both tokens' logits were at the first difference,
in units of their last place. In half precision near-ties may fall either way; anything wider is a fault."""

SWEPT_SAMPLES = 3
"""Samples on which draft lengths are tried."""


@dataclass(frozen=True)
class SpeculationPlan:
    """`samples` are asked their own prompts; `repeat` are turns per sample, `sweep_repeat` those per sample and
    draft length of the untouched draft model, whose prediction is what is held against measurement; others get a third.

    `judge` is asked about every lossless answer that differs from the plain one.
    """

    samples: Sequence[Sample]
    contenders: Sequence[DraftingContender]
    draft: ModelChoice
    target: ModelChoice
    repeat: int = 3
    sweep_repeat: int = 12
    max_new_tokens: int = 128
    step: str = "auto"
    judge: FlipJudge | None = None

    def validate(self) -> None:
        """Raises UserError (exit code 2) for numbers and names that mean nothing."""
        if self.repeat < 1 or self.sweep_repeat < 4:
            raise UsageError(f"--repeat must be at least 1, not {self.repeat}.")
        if not self.samples or not self.contenders:
            raise UsageError("There is nothing to measure: no sample, or no drafter of that name.")


def measure_speculation(
    engine: Engine, plan: SpeculationPlan, stop: StopFlag, note: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """`environment`, `rows` (a row for each drafter), `sweep` (one for each drafter and draft length) and `summary`.

    A set `stop` ends it with what is measured. Raises UserError when the target does not even run alone.
    """
    plan.validate()
    bench = _Bench(engine, plan, stop, note)
    is_stopped = False
    try:
        bench.measure()
    except Cancelled:
        is_stopped = True
    finally:
        engine.close()
    return {
        "environment": bench.environment or engine.describe(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {
            "draft": plan.draft.name,
            "target": plan.target.name,
            "dtype": bench.dtype,
            "samples": len(plan.samples),
            "repeat": plan.repeat,
            "sweep_repeat": plan.sweep_repeat,
            "max_new_tokens": plan.max_new_tokens,
            "temperature": 0.0,
            "step": plan.step,
        },
        "rows": bench.rows,
        "sweep": bench.sweep,
        "summary": summary_of(bench.rows, bench.sweep)
        | {"largest_gap_ulps": max(bench.gaps_ulps, default=None), "is_complete": not is_stopped},
    }


@dataclass
class _Bench:
    engine: Engine
    plan: SpeculationPlan
    stop: StopFlag
    note: Callable[[str], None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    sweep: list[dict[str, Any]] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    gaps_ulps: list[float] = field(default_factory=list)
    dtype: str = ""
    schedule: TurnSchedule = field(default_factory=TurnSchedule)

    def measure(self) -> None:
        plan = self.plan
        first = self._run(self._plain(plan.samples[0]))
        self.environment = first.info.environment
        self.dtype = " and ".join(dict.fromkeys(facts.dtype for facts in first.info.models.values()))
        best: list[tuple[DraftingContender, int]] = []
        for contender in plan.contenders:
            try:
                gamma = self._best_gamma(contender) if contender.sweeps else contender.speculation.gamma
                self._run(contender.request(self._plain(plan.samples[0]), gamma))
            except UserError as problem:
                self.note(f"{contender.name}: {problem.sentence}")
                self.rows.append({"drafter": contender.key, "name": contender.name, "reason": problem.sentence})
            else:
                best.append((contender, gamma))
        self._final(best)

    def _best_gamma(self, contender: DraftingContender) -> int:
        """Tries all draft lengths in turns; returns the one that decodes fastest."""
        plan, samples = self.plan, self.plan.samples[:SWEPT_SAMPLES]
        turns: dict[int, list[DraftingTurn]] = {gamma: [] for gamma in contender.gammas}
        for sample in samples:  # so that no first run of a setting is measured
            for gamma in contender.gammas:
                self._run(contender.request(self._plain(sample), gamma))
        repeats = plan.sweep_repeat if contender.speculation.drafter == MODEL else max(4, plan.sweep_repeat // 3)
        for _ in range(repeats):
            for sample in samples:
                plain = self._plain(sample)
                drafted = [contender.request(plain, gamma) for gamma in contender.gammas]
                for gamma, turn in zip(contender.gammas, self._turn(plain, drafted), strict=True):
                    turns[gamma].append(turn)
        swept = [_swept_row(contender, gamma, found, len(samples)) for gamma, found in turns.items()]
        self.sweep += swept
        known = [row for row in swept if row["measured"] is not None]
        best = max(known, key=lambda row: float(row["measured"]), default=None)
        chosen = int(best["gamma"]) if best else contender.speculation.gamma
        self.note(f"{contender.name}: best with gamma {chosen}" + (f", {times_text(best['measured'])}" if best else ""))
        return chosen

    def _final(self, best: Sequence[tuple[DraftingContender, int]]) -> None:
        """All drafters on all samples, in turns; rows are there after every sample, should it be stopped."""
        plan, began = self.plan, time.monotonic()
        turns: dict[str, list[DraftingTurn]] = {contender.key: [] for contender, _ in best}
        reasons = list(self.rows)
        for number, sample in enumerate(plan.samples, 1):
            plain = self._plain(sample)
            drafted = [contender.request(plain, gamma) for contender, gamma in best]
            for _ in range(plan.repeat if best else 0):
                for (contender, _), turn in zip(best, self._turn(plain, drafted), strict=True):
                    turns[contender.key].append(turn)
            self.rows = [_row(contender, gamma, turns[contender.key]) for contender, gamma in best] + reasons
            self._judge(plain, best, turns)
            left_s = (time.monotonic() - began) / number * (len(plan.samples) - number)
            self.note(f"sample {number} of {len(plan.samples)}; about {left_s:.0f} s left")

    def _judge(
        self, plain: RunRequest, best: Sequence[tuple[DraftingContender, int]], turns: dict[str, list[DraftingTurn]]
    ) -> None:
        """Looks into what differs on the latest sample, each answer once."""
        judge, count = self.plan.judge, self.plan.repeat
        if judge is None:
            return
        latest = [turn for contender, _ in best if contender.is_lossless for turn in turns[contender.key][-count:]]
        for own, other in {(turn.plain_ids, turn.drafted_ids) for turn in latest if not turn.is_same}:
            self.gaps_ulps.append(judge(plain, own, other))

    def _turn(self, plain: RunRequest, drafted: Sequence[RunRequest]) -> list[DraftingTurn]:
        return turn_of(self._run, self.schedule, plain, drafted)

    def _plain(self, sample: Sample) -> RunRequest:
        plan = self.plan
        return plain_request(sample, plan.draft, plan.target, plan.max_new_tokens, step=plan.step)

    def _run(self, request: RunRequest) -> RunLog:
        return finished_run(self.engine, request, self.stop)


def _swept_row(contender: DraftingContender, gamma: int, turns: Sequence[DraftingTurn], samples: int) -> dict[str, Any]:
    """Predicted from every other repeat, measured in the rest; `turns` are in order of repeats."""
    halves: tuple[list[DraftingTurn], list[DraftingTurn]] = ([], [])
    for index, turn in enumerate(turns):
        halves[index // samples % 2].append(turn)
    prediction, speed = predicted(halves[0]), measured(halves[1])["decode_speedup"]
    return {
        "drafter": contender.key,
        "gamma": gamma,
        **_costs(prediction),
        **acceptance_of([turn.drafted for turn in unlike(turns)]),
        "measured": speed,
        "predicted_vs_measured": prediction.predicted / speed if prediction and speed else None,
    }


def _row(contender: DraftingContender, gamma: int, turns: Sequence[DraftingTurn]) -> dict[str, Any]:
    return {
        "drafter": contender.key,
        "name": contender.name,
        "mode": contender.mode,
        "gamma": gamma,
        "is_lossless": contender.is_lossless,
        **_costs(predicted(turns)),
        **acceptance_of([turn.drafted for turn in unlike(turns)]),
        **measured(turns),
        "token_match": token_match(unlike(turns)),
        "reason": None,
    }


def _costs(found: Prediction | None) -> dict[str, float | None]:
    """Costs in steps of the baseline, and the predicted speed of decoding."""
    if found is None:
        return dict.fromkeys(("draft_cost", "verify_cost", "preparation_cost", "step_ms", "predicted"))
    step_ms = found.costs.step_ms
    return {
        "draft_cost": found.c or 0.0,
        "verify_cost": found.v,
        "preparation_cost": found.costs.prepare_ms / step_ms,
        "step_ms": step_ms,
        "predicted": found.predicted,
    }


def summary_of(rows: Sequence[dict[str, Any]], sweep: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """cli.md's keys. `predicted_vs_measured_worst` is the agreement farthest from 1 over all draft lengths of the
    untouched draft model."""
    lossless = [row for row in rows if row.get("is_lossless") and row["decode_speedup"] is not None]
    best = max(lossless, key=lambda row: float(row["decode_speedup"]), default=None)
    agreements = [row["predicted_vs_measured"] for row in sweep if row["drafter"] == MODEL]
    known = [value for value in agreements if value is not None]
    return {
        "best_lossless_speedup": best["decode_speedup"] if best else None,
        "best_drafter": best["drafter"] if best else None,
        "best_end_to_end_speedup": max((row["end_to_end_speedup"] for row in lossless), default=None),
        "predicted_vs_measured_worst": max(known, key=lambda value: max(value, 1 / value), default=None),
        "acceptance": {
            row["drafter"]: row["draft_acceptance_rate"] for row in rows if row.get("draft_acceptance_rate") is not None
        },
        "answers_differ": sum(row["answers"] - row["same_answers"] for row in lossless),
        "answers": sum(row["answers"] for row in lossless),
        "unique_tokens": max((row["unique_tokens"] for row in lossless), default=0),
    }


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
    run, schedule = partial(finished_run, engine, stop=stop), TurnSchedule()
    for request in plan.requests(plan.samples[0]):  # so that loading and first calls are in no measured run
        first = run(request)
    try:
        for sample in plan.samples:
            made = []
            plain, drafted = plan.requests(sample)
            for _ in range(plan.repeat):
                made += turn_of(run, schedule, plain, [drafted])
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
    costs = _costs(predicted(turns))
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
        **{key: costs[key] for key in ("draft_cost", "verify_cost", "step_ms")},
        **measured(turns),
        "agreement": None if is_lossless else token_match(turns),
    }
