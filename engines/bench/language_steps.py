"""Every way of decoding at several contexts, with one model: times, shares of the ceilings, launches, same tokens.

Rows are handed out as they come, so that what ends this early keeps what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import torch

from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, EngineContender
from engines.bench.engine import time_vision, unrest_problems
from engines.bench.figures import decode_row, memory_limit, needs_of, prefill_row, problems_of, vision_row
from engines.bench.generate import GeneratedTurns
from engines.bench.launches import count_launches
from engines.bench.ours import OurTurns, eager
from engines.bench.same_tokens import SameTokens, forced_logits, same_running_freely, same_when_forced
from engines.bench.turns import ContenderTurns, Runner, UnavailableError, take_turns
from engines.bench.workload import Workload
from engines.hardware.device import dtype_name
from engines.loading.shapes import SEED, BenchShape, text_shape, vision_shape
from evprof.metrics.limits.roofline import vision_flops

Emit = Callable[[dict[str, Any]], None]

COUNTED_TOKENS = 9
"""Tokens of the turn in which launches are counted, the prefill's own among them."""


@dataclass(frozen=True)
class StepsPlan:
    """What is measured: a `shape` after prompts of `contexts` positions, in `rounds` rounds of turns, by the contenders
    that are compiled or by the others; shares are of `ceilings`. One is begun only while `least_left_s` seconds are
    left, and nothing is compiled where `no_compiling` says why. `scale` shrinks what measures the ceilings."""

    shape: BenchShape
    contexts: Sequence[int]
    rounds: int
    ceilings: Ceilings
    scale: float = 1.0
    is_compiled: bool = False
    least_left_s: float = 20.0
    no_compiling: str | None = None


def measure_steps(
    plan: StepsPlan, workload: Workload, emit: Emit, note: Callable[[str], None], left_s: Callable[[], float]
) -> None:
    """Emits a row for each contender, phase and context.

    Those that need no compiler take turns with each other; of the others one after the other takes turns with the
    reference, transformers' own first, so that each has its rows before the next one compiles.
    """
    bench = _Bench(plan, emit, note, left_s)
    here = [contender for contender in CONTENDERS if contender.is_compiled == plan.is_compiled]
    prompts = [workload.with_context(context) for context in plan.contexts]
    if plan.is_compiled:
        for contender in sorted(here, key=attrgetter("name")):
            for each in prompts:
                bench.contenders(each, [contender])
    else:
        bench.vision(workload)
        for each in prompts:
            bench.contenders(each, here)
    if plan.scale == 1.0:  # smaller samples never agree
        for sentence in unrest_problems(plan.ceilings, measure_ceilings(workload.device, workload.dtype)):
            emit({"problem": sentence})


@dataclass(frozen=True)
class _Bench:
    plan: StepsPlan
    emit: Emit
    note: Callable[[str], None]
    left_s: Callable[[], float]

    def vision(self, workload: Workload) -> None:
        """A row for the tower and what follows it, where the shape has one."""
        shape = self.plan.shape
        if shape.network is None:
            return
        flops = vision_flops(vision_shape(shape.network))
        row = vision_row(*time_vision(workload, self.plan.rounds, self.left_s()), flops, self.plan.ceilings)
        self.emit({"figure": "step", "context": None, **row})

    def _may_begin(self, contender: EngineContender, workload: Workload) -> bool:
        """Whether it can take part here and there is time; else a row says why not."""
        left = self.left_s()
        reason = None
        if contender.only_on not in (None, workload.device.type):
            reason = f"it needs a {str(contender.only_on).upper()} device"
        elif contender.is_compiled and self.plan.no_compiling:
            reason = self.plan.no_compiling
        elif left < self.plan.least_left_s:
            reason = f"only {left:.0f} s of the section's time were left"
        if reason is not None:
            nothing = ContenderTurns(contender.name, reason=reason)
            self.rows(workload, {contender.name: nothing}, {}, ContenderTurns(HF_EAGER))
        return reason is None

    def contenders(self, workload: Workload, contenders: Sequence[EngineContender]) -> None:
        """Turns at one context, with the reference among them; rows of those that can take part."""
        able = [contender for contender in contenders if self._may_begin(contender, workload)]
        if not able:
            return
        reference = [contender for contender in CONTENDERS if contender.name == HF_EAGER and contender not in able]
        names = [contender.name for contender in able]
        self.note(f"{workload.prompt:,} positions: {', '.join(names)}")
        made: dict[str, Runner] = {}

        def make(contender: EngineContender) -> Runner:
            made[contender.name] = contender.make(workload)
            return made[contender.name]

        starters = {contender.name: partial(make, contender) for contender in [*reference, *able]}
        series = take_turns(starters, self.plan.rounds, limit_s=self.left_s(), seed=SEED, note=self.note)
        self.rows(workload, {name: series[name] for name in names}, made, series[HF_EAGER])
        made.clear()
        if workload.device.type == "cuda":
            torch.cuda.empty_cache()

    def rows(
        self,
        workload: Workload,
        series: dict[str, ContenderTurns],
        made: Mapping[str, Runner],
        reference: ContenderTurns,
    ) -> None:
        """A decode and a prefill row each, with what is counted and compared besides of those with a runner."""
        needs = needs_of(
            text_shape(self.plan.shape.text), workload.prompt, workload.step_count, workload.dtype.itemsize, None
        )
        limit = memory_limit(needs, self.plan.ceilings)
        plain = _PlainAnswer(workload) if made else None
        for name, turns in series.items():
            runner = made.get(name) if turns.is_measured else None
            here = {"figure": "step", "context": workload.prompt}
            more = {} if runner is None or plain is None else _more(runner, plain, turns)
            phases = [decode_row(turns, reference, needs, limit) | {"mbu_reason": limit.reason} | more]
            phases.append(prefill_row(turns, reference, needs, self.plan.ceilings, workload.prompt))
            for row in phases:
                self.emit(here | row)
            for sentence in problems_of(phases, {}, dtype_name(workload.dtype)):
                self.emit({"problem": f"{sentence[:-1]} ({workload.prompt:,} positions)."})


def _more(runner: Runner, plain: _PlainAnswer, turns: ContenderTurns) -> dict[str, Any]:
    """What is counted and compared beside the times."""
    counts: dict[str, Any] = {}
    try:
        if isinstance(runner, OurTurns | GeneratedTurns):
            device = runner.workload.device
            counts |= count_launches(runner.shortened(COUNTED_TOKENS), device).to_json()
        counts |= plain.same_as(runner, turns).to_json()
    except UnavailableError as error:
        counts["problem"] = str(error)
    return counts


class _PlainAnswer:
    """What the eager step answers, and the logits it chose from."""

    def __init__(self, workload: Workload) -> None:
        self._turns = eager(workload)
        self._ids = self._turns().ids
        self._logits = forced_logits(self._turns, self._ids)

    def same_as(self, runner: Runner, turns: ContenderTurns) -> SameTokens:
        """A step of ours is given the same words at every position; others are taken as they answered."""
        if isinstance(runner, OurTurns):
            return same_when_forced(self._logits, forced_logits(runner, self._ids))
        return same_running_freely(self._turns, self._ids, next(iter(turns.turns.values())).ids)
