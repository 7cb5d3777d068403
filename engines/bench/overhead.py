"""What the instrumentation costs: the same decode loop with and without records, in interleaved pairs.

"Off" is the very same loop with a null clock and an answer that keeps no records. Beside the ratio stands the A/A
ratio, off against off in the same minutes: what this machine's noise alone makes of equal things. The engine thread's
part is measured, which ends at the queue; what sending to a window adds is `windowed_vs_headless`, not measured here.
"""

from __future__ import annotations

import random
import statistics
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.hardware.environment import describe_environment
from engines.loading.shapes import LANGUAGE_SHAPES, SEED, build_language_model, language_config
from engines.measuring.timing import NullClock, StageClock
from engines.tokens.answer import Answer, SilentAnswer
from evprof.core.clock import monotonic_ns
from evprof.core.errors import USAGE, UserError
from evprof.core.records import TARGET
from evprof.core.units import NS_PER_S
from evprof.run.processes.queue_sink import QueueSink

TOKENS, TURNS = 4, 6
"""Decode steps in a row, and how often each kind gets its turn within a pair: the finer they alternate, the more of
the machine's unrest all share."""

RESAMPLES = 4000


@dataclass(frozen=True)
class Triple:
    """Time per token in ns with records, without, and without once more; in turns of random order."""

    on_ns: float
    off_ns: float
    again_ns: float


def measure_overhead(
    shape: str = "dispatch-32", pairs: int = 300, note: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """`environment`, `rows` and `summary` of `evprof bench overhead`; `note` hears how far it is.

    One CPU thread, so that dispatch is what is measured. Raises UserError (exit code 2) for an unknown shape.
    """
    if shape not in LANGUAGE_SHAPES:
        raise UserError(f"Unknown shape '{shape}'; choose one of {', '.join(LANGUAGE_SHAPES)}.", exit_code=USAGE)
    if pairs < 2:
        raise UserError(f"--pairs must be at least 2, not {pairs}.", exit_code=USAGE)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            triples = _measure(_Loop(_build(shape)), pairs, note)
            environment = describe_environment(torch.device("cpu"))
    finally:
        torch.set_num_threads(before)
    rows = [
        {
            "pair": index,
            "on_us": entry.on_ns / 1000,
            "off_us": entry.off_ns / 1000,
            "off_again_us": entry.again_ns / 1000,
        }
        for index, entry in enumerate(triples)
    ]
    return {"environment": environment, "rows": rows, "summary": {"shape": shape} | summarise(triples)}


def summarise(triples: list[Triple]) -> dict[str, Any]:
    """Median ratios of time per token, the 95 % bootstrap bounds, and what one token costs."""
    ratios = np.array([entry.on_ns / entry.off_ns for entry in triples])
    equal = np.array([entry.again_ns / entry.off_ns for entry in triples])
    low, high = median_interval(ratios)
    equal_low, equal_high = median_interval(equal)
    return {
        "pairs": len(triples),
        "tokens_per_pair": TOKENS * TURNS,
        "off_ms_per_token": statistics.median(entry.off_ns for entry in triples) / 1e6,
        "instrumented_vs_off": float(np.median(ratios)),
        "instrumented_vs_off_ci95_low": low,
        "instrumented_vs_off_ci95_high": high,
        "a_vs_a": float(np.median(equal)),
        "a_vs_a_ci95_low": equal_low,
        "a_vs_a_ci95_high": equal_high,
        "windowed_vs_headless": None,
    }


def median_interval(values: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the median."""
    drawn = np.random.default_rng(SEED).choice(values, size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


class _Loop:
    """Makes one answer after another with a small model, with records or without."""

    def __init__(self, model: LlamaDecoder) -> None:
        self._model = model
        self._sink = QueueSink()
        self._embeddings = model.embed(torch.arange(3, 19).unsqueeze(0))
        self._pieces = [f" {index}" for index in range(model.config.vocab_size)]
        self._run_id = 0

    def start(self, *, instrumented: bool) -> _Running:
        """A prefilled run that has its first token."""
        self._sink.take()  # nothing piles up
        self._run_id += 1
        cached = CachedModel.over(self._model, TARGET, bytes_per_position=1)
        clock = StageClock(self._sink, self._run_id) if instrumented else NullClock()
        answer = Answer(self._sink, self._run_id, TARGET, self._pieces) if instrumented else SilentAnswer()
        answer.add(int(greedy(cached.prefill(self._embeddings, _NEVER))))
        return _Running(cached, answer, clock)


class _Running:
    """One run's decode stage, advanced a few tokens at a time; `time_ns` is what that took, stage records included."""

    def __init__(self, cached: CachedModel, answer: Answer, clock: StageClock) -> None:
        self._cached = cached
        self._answer = answer
        self._clock = clock
        began_ns = monotonic_ns()
        self._stage = clock.stage("decode", TARGET)
        self._stage.__enter__()
        self.time_ns = monotonic_ns() - began_ns

    def advance(self) -> None:
        """TOKENS more."""
        ids = self._answer.ids
        last, limits = torch.tensor([[ids[-1]]]), Limits(len(ids) + TOKENS)
        began_ns = monotonic_ns()
        decode(self._cached, last, self._answer, limits, sampler=greedy, clock=self._clock, stop=_NEVER)
        self.time_ns += monotonic_ns() - began_ns

    def time_per_token(self) -> float:
        """Ends the stage; ns per token of the whole of it."""
        began_ns = monotonic_ns()
        self._stage.__exit__(None, None, None)
        return (self.time_ns + monotonic_ns() - began_ns) / (TOKENS * TURNS)


_NEVER = threading.Event()


def _measure(loop: _Loop, pairs: int, note: Callable[[str], None]) -> list[Triple]:
    order = random.Random(SEED)
    _triple(loop, order)  # the first of everything is slow
    began_ns = monotonic_ns()
    triples: list[Triple] = []
    for index in range(pairs):
        triples.append(_triple(loop, order))
        if (index + 1) % 50 == 0 and index + 1 < pairs:
            left_s = (monotonic_ns() - began_ns) / NS_PER_S / (index + 1) * (pairs - index - 1)
            note(f"overhead: {index + 1} of {pairs} pairs, about {left_s:.0f} s left")
    return triples


def _triple(loop: _Loop, order: random.Random) -> Triple:
    kinds = ["on", "off", "again"]
    order.shuffle(kinds)
    runs = {kind: loop.start(instrumented=kind == "on") for kind in kinds}
    for _ in range(TURNS):
        order.shuffle(kinds)
        for kind in kinds:
            runs[kind].advance()
    times = {kind: run.time_per_token() for kind, run in runs.items()}
    return Triple(times["on"], times["off"], times["again"])


def _build(shape: str) -> LlamaDecoder:
    return LlamaDecoder.take_over(build_language_model(language_config(LANGUAGE_SHAPES[shape])))
