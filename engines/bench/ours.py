"""Our own ways of decoding, as contenders: the very loop that runs use, without records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event
from typing import Self

import torch
from torch.profiler import record_function

from engines.bench.ceilings import wait
from engines.bench.turns import DECODE_BEGINS, EngineTurn, UnavailableError
from engines.bench.workload import Workload
from engines.decoder.cache_choice import make_cache
from engines.decoder.compiled_step import first_line
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, DecodeStep, Limits, decode
from engines.decoder.kv_cache import STATIC, KvCache
from engines.decoder.sampling import greedy
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.measuring.timing import NullClock
from engines.tokens.answer import SilentAnswer
from evprof.core.clock import monotonic_ns
from evprof.core.errors import UserError
from evprof.core.records import TARGET
from evprof.core.vocabulary.switches import Switches

_NEVER = Event()


@dataclass(frozen=True)
class OurTurns:
    """Takes turns with our decoder over `cached`, by its own step where it has one."""

    cached: CachedModel
    workload: Workload

    def __call__(self) -> EngineTurn:
        """Raises UnavailableError when the step gave up or failed in this turn."""
        try:
            taken = run_once(self.cached, self.workload)
        except RuntimeError as error:
            raise UnavailableError(f"it failed: {first_line(error)}") from error
        step = self.cached.own_step
        if step is not None and step.problem:
            raise UnavailableError(f"it fell back to the plain step: {step.problem}")
        return taken

    def shortened(self, tokens: int) -> Self:
        """The same with fewer tokens, over the same cache."""
        return replace(self, workload=replace(self.workload, tokens=min(tokens, self.workload.tokens)))


def eager(workload: Workload) -> OurTurns:
    """The lean step over a cache written in place."""
    cached = CachedModel(workload.decoder, TARGET, workload.device, workload.decoder.rows, cache=_cache_of(workload))
    return OurTurns(cached, workload)


def stepping(workload: Workload, kind: str, blocks: tuple[int, ...] = (1,)) -> OurTurns:
    """The step of a kind ("compiled", "graphs"), chosen and prepared as a run's setup does, for blocks of so many
    tokens.

    Raises UnavailableError where this machine makes no such step.
    """
    decoder = workload.decoder
    try:
        chosen = DecodeSteps(decoder).choose(Switches(step=kind), StepPlan(blocks, workload.prompt, workload.capacity))
    except UserError as error:
        raise UnavailableError(str(error)) from None
    step = chosen.step
    if step is None or chosen.kind != kind:
        raise UnavailableError(chosen.sentence or f"there is no step '{kind}'")
    cache = _kept_cache(step, workload.capacity) or _cache_of(workload)
    return OurTurns(CachedModel(decoder, TARGET, workload.device, decoder.rows, cache=cache, own_step=step), workload)


def _kept_cache(step: DecodeStep, capacity: int) -> KvCache | None:
    """The cache that a captured step keeps, for so many positions."""
    return step.open_cache(capacity) if isinstance(step, GraphStep) else None


def _cache_of(workload: Workload) -> KvCache:
    """Made as runs make it: what is compiled for tensors of inference mode is compiled again for others."""
    config, capacity = workload.decoder.config, workload.capacity
    with torch.inference_mode():
        return make_cache(STATIC, config, capacity=capacity, device=workload.device, dtype=workload.dtype)


def run_once(cached: CachedModel, workload: Workload) -> EngineTurn:
    """One turn over an emptied cache; the device is waited for at the ends of prefill and decode, not in between."""
    cached.opened.crop(0)
    answer = SilentAnswer()
    with torch.inference_mode():
        wait(workload.device)
        began_ns = monotonic_ns()
        logits = cached.prefill(workload.embeddings, _NEVER)
        wait(workload.device)
        with record_function(DECODE_BEGINS):
            prefilled_ns = monotonic_ns()
        first = greedy(logits)
        answer.add(int(first))
        decode(cached, first, answer, Limits(workload.tokens), sampler=greedy, clock=NullClock(), stop=_NEVER)
        wait(workload.device)
    return EngineTurn(prefilled_ns - began_ns, monotonic_ns() - prefilled_ns, tuple(answer.ids))
