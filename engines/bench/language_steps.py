"""Measures all decode steps at several contexts with one model: times, shares of the ceilings, launches, same tokens.

Rows are emitted as they are measured, so an interrupted run keeps them. Each position is compared with the eager step
after the same tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import attrgetter
from threading import Event
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from engines.bench.ceilings import Ceilings, measure_ceilings
from engines.bench.contenders import CONTENDERS, HF_EAGER, EngineContender, GeneratedTurns, OurTurns
from engines.bench.contenders import ours_eager as eager
from engines.bench.figures import (
    decode_row,
    memory_limit,
    needs_of,
    prefill_row,
    problems_of,
    time_vision,
    unrest_problems,
    vision_row,
)
from engines.bench.turns import DECODE_BEGINS, ContenderTurns, Runner, UnavailableError, take_turns
from engines.bench.workload import Workload
from engines.hardware.device import dtype_name
from engines.loading.shapes import SEED, BenchShape, text_shape, vision_shape
from engines.speculation.verification import NEAR_TIE_ULPS, divergence, gap_ulps
from evprof.core.errors import UserError
from evprof.metrics.limits.workload import vision_flops

_LAUNCH = re.compile(r"cu(da)?(Graph)?Launch")
"""How the driver's and the runtime's calls begin that start a kernel or a graph."""

_NO_KERNEL = ("Memcpy", "Memset")


@dataclass(frozen=True)
class TokenCounts:
    """Per decoded token. Kernels and launches are None without a GPU; a graph is one launch of many kernels."""

    operators_per_token: float
    kernels_per_token: float | None = None
    launches_per_token: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def count_launches(runner: Runner, device: torch.device) -> TokenCounts:
    """Counts the decode part of one turn; its times are not valid. Raises UserError if the trace holds no such turn."""
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, acc_events=True) as profiler:
        taken = runner()
    events = profiler.events()
    steps = len(taken.ids) - 1
    if events is None or steps < 1:
        raise UserError("The trace of a turn holds no decode step.")
    return counts_of(events, steps, is_cuda=device.type == "cuda")


def counts_of(events: Iterable[Any], steps: int, *, is_cuda: bool) -> TokenCounts:
    """Of a profiler's events (times in µs), those after the mark between prefill and decode, over `steps` steps."""
    listed = list(events)
    began = next((event.time_range.start for event in listed if event.name == DECODE_BEGINS), None)
    if began is None:
        raise UserError("The trace does not say where decoding begins.")
    after = [event for event in listed if event.time_range.start > began and event.name != DECODE_BEGINS]
    operators = sum(_is_operator(event) and not _is_operator(event.cpu_parent) for event in after)
    if not is_cuda:
        return TokenCounts(operators / steps)
    kernels = sum(_is_kernel(event) for event in after)
    launches = sum(_place(event) == "CPU" and bool(_LAUNCH.match(event.name)) for event in after)
    return TokenCounts(operators / steps, kernels / steps, launches / steps)


def _place(event: Any) -> str:
    return str(event.device_type.name)


def _is_operator(event: Any) -> bool:
    return event is not None and _place(event) == "CPU" and event.name.startswith("aten::")


def _is_kernel(event: Any) -> bool:
    on_device = _place(event) == "CUDA"
    return on_device and not event.is_user_annotation and not event.name.startswith(_NO_KERNEL)


_NEVER = Event()


@dataclass(frozen=True)
class SameTokens:
    """`gaps_ulps`: for each differing position the gap from the eager step's largest logit to the other token's, in
    units in the last place. `is_forced`: every position follows the same tokens; otherwise only the first differing one
    is judged."""

    positions: int
    equal: int
    gaps_ulps: tuple[float, ...]
    is_forced: bool = True

    def to_json(self) -> dict[str, Any]:
        """For a row; an infinite gap, where an answer ended by itself, is None."""
        widest = max(self.gaps_ulps, default=None)
        return {
            "compared_positions": self.positions,
            "same_positions": self.equal,
            "same_tokens": self.equal / self.positions if self.positions else None,
            "divergences": len(self.gaps_ulps),
            "near_ties": sum(gap <= NEAR_TIE_ULPS for gap in self.gaps_ulps),
            "widest_gap_ulps": widest if widest is not None and math.isfinite(widest) else None,
            "is_forced": self.is_forced,
        }


def forced_logits(turns: OurTurns, ids: tuple[int, ...]) -> torch.Tensor:
    """Feeds an answer after the prompt, token by token: logits [len(ids), V] that each of its tokens is chosen from."""
    cached = turns.cached
    cached.opened.crop(0)
    with torch.inference_mode():
        fed = torch.tensor([ids], device=turns.workload.device)
        # Copies: what a captured step returns is overwritten by the next one.
        found = [cached.prefill(turns.workload.embeddings, _NEVER)[0].clone()]
        found += [cached.step(fed[:, at : at + 1])[0, -1].clone() for at in range(len(ids) - 1)]
        return torch.stack(found)


def same_when_forced(reference: torch.Tensor, logits: torch.Tensor) -> SameTokens:
    """Two steps' logits [N, V] after the same words."""
    expected, chosen = reference.argmax(-1), logits.argmax(-1)
    places = torch.nonzero(expected != chosen).flatten().tolist()
    gaps = tuple(gap_ulps(reference[place], int(chosen[place])) for place in places)
    return SameTokens(len(reference), len(reference) - len(places), gaps)


def same_running_freely(eager: OurTurns, plain: tuple[int, ...], other: tuple[int, ...]) -> SameTokens:
    equal = sum(one == two for one, two in zip(plain, other, strict=False))
    workload = eager.workload
    found = divergence(workload.decoder, workload.embeddings, plain, other)
    return SameTokens(max(len(plain), len(other)), equal, () if found is None else (found.gap_ulps,), is_forced=False)


Emit = Callable[[dict[str, Any]], None]

COUNTED_TOKENS = 9


@dataclass(frozen=True)
class StepsPlan:
    """A `shape` after prompts of `contexts` positions in `rounds` rounds. A contender starts only with `least_left_s`
    seconds left; `no_compiling` says why nothing is compiled. `scale` shrinks the measurement of the ceilings."""

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
    """Emits a row for each contender, phase and context. Compiled contenders follow one by one, each against the
    reference."""
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
    def __init__(self, workload: Workload) -> None:
        self._turns = eager(workload)
        self._ids = self._turns().ids
        self._logits = forced_logits(self._turns, self._ids)

    def same_as(self, runner: Runner, turns: ContenderTurns) -> SameTokens:
        if isinstance(runner, OurTurns):
            return same_when_forced(self._logits, forced_logits(runner, self._ids))
        return same_running_freely(self._turns, self._ids, next(iter(turns.turns.values())).ids)
