"""Our own ways of decoding, as contenders: the very loop that runs use, without records."""

from __future__ import annotations

from threading import Event

import torch

from engines.answer import SilentAnswer
from engines.bench.ceilings import wait
from engines.bench.turns import Runner, Turn
from engines.bench.workload import Workload
from engines.decoding import CachedModel, Limits, decode
from engines.kv_cache import STATIC, make_cache
from engines.sampling import greedy
from engines.timing import NullClock
from evprof.core.clock import monotonic_ns
from evprof.core.records import TARGET

_NEVER = Event()


def eager(workload: Workload) -> Runner:
    """The lean step over a cache written in place."""
    decoder, device = workload.decoder, workload.device
    with torch.inference_mode():
        cache = make_cache(STATIC, decoder.config, capacity=workload.capacity, device=device, dtype=workload.dtype)
    cached = CachedModel(decoder, TARGET, device, decoder.rows, cache=cache)
    return lambda: run_once(cached, workload)


def run_once(cached: CachedModel, workload: Workload) -> Turn:
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
    return Turn(prefilled_ns - began_ns, monotonic_ns() - prefilled_ns, tuple(answer.ids))
