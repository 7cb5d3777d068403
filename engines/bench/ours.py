"""Our own ways of decoding, as contenders: the very loop that runs use, without records."""

from __future__ import annotations

from threading import Event

import torch

from engines.bench.ceilings import wait
from engines.bench.turns import EngineTurn, Runner, UnavailableError
from engines.bench.workload import Workload
from engines.decoder.cache_choice import make_cache
from engines.decoder.cuda_graphs import GraphStep
from engines.decoder.decoding import CachedModel, Limits, decode
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


def eager(workload: Workload) -> Runner:
    """The lean step over a cache written in place."""
    cached = CachedModel(workload.decoder, TARGET, workload.device, workload.decoder.rows, cache=_cache_of(workload))
    return lambda: run_once(cached, workload)


def stepping(workload: Workload, kind: str) -> Runner:
    """The step of a kind ("compiled", "graphs"), chosen and prepared as a run's setup does.

    Raises UnavailableError where this machine makes no such step, and from a turn in which it gave up.
    """
    decoder = workload.decoder
    try:
        chosen = DecodeSteps(decoder).choose(Switches(step=kind), StepPlan((1,), workload.prompt, workload.capacity))
    except UserError as error:
        raise UnavailableError(str(error)) from None
    step = chosen.step
    if step is None:
        raise UnavailableError(chosen.sentence or f"there is no step '{kind}'")
    cache = step.open_cache(workload.capacity) if isinstance(step, GraphStep) else _cache_of(workload)
    cached = CachedModel(decoder, TARGET, workload.device, decoder.rows, cache=cache, own_step=step)

    def turn() -> EngineTurn:
        taken = run_once(cached, workload)
        if step.problem:
            raise UnavailableError(f"it fell back to the plain step: {step.problem}")
        return taken

    return turn


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
        prefilled_ns = monotonic_ns()
        first = greedy(logits)
        answer.add(int(first))
        decode(cached, first, answer, Limits(workload.tokens), sampler=greedy, clock=NullClock(), stop=_NEVER)
        wait(workload.device)
    return EngineTurn(prefilled_ns - began_ns, monotonic_ns() - prefilled_ns, tuple(answer.ids))
