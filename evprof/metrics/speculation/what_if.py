"""What would change if: a stage that were faster, an answer of another length, drafts made while the target prefills.

Everything follows from measured times per stage and per token by arithmetic that is written beside it; nothing here
was measured, and contention, growing caches and waiting are left out, so that gains can only come out too large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from evprof.metrics.speculation.outcome import acceptance_ceiling, expected_tokens_per_round, predicted_speedup

FACTORS = (2.0, 4.0, math.inf)
"""How much faster a stage is imagined; infinitely: it costs nothing, the most there is to gain."""

OUTPUT_LENGTHS = (5, 20, 50, 100)
"""Tokens of the answers that totals are told for."""

LONGEST_GAMMA = 12
"""Drafted tokens per round up to which the best number is looked for."""


@dataclass(frozen=True)
class Faster:
    """A run whose `stage` were `factor` times as fast: the new total, and what it saves of the old one."""

    stage: str
    factor: float
    total_ms: float
    saved_share: float

    @property
    def speedup(self) -> float:
        return 1 / (1 - self.saved_share) if self.saved_share < 1 else math.inf


def faster_stage(parts_ms: Mapping[str, float], stage: str, factor: float) -> Faster:
    """Amdahl's law: only `stage` of `parts_ms` (name -> ms, which add up to the total) gets `factor` times as fast.

    Raises ValueError when the parts add up to nothing.
    """
    whole = sum(parts_ms.values())
    if whole <= 0:
        raise ValueError("parts of no length cannot be sped up")
    saved = parts_ms[stage] * (1 - 1 / factor)
    return Faster(stage, factor, whole - saved, saved / whole)


@dataclass(frozen=True)
class AnswerPace:
    """How one model answers: ms until it has `first_tokens` tokens, and ms for each one after.

    A prefill gives the first token, so `first_tokens` is 1; 0 where a file counts as tokens what its decode steps gave.
    """

    prefix_ms: float
    step_ms: float
    first_tokens: int = 1

    def total_ms(self, tokens: float) -> float:
        return self.prefix_ms + max(0.0, tokens - self.first_tokens) * self.step_ms


def free_tokens(window_ms: float, draft: AnswerPace) -> int:
    """Tokens that the draft has within a window in which the target is busy: what its prefix leaves, step by step."""
    left = window_ms - draft.prefix_ms
    if left < 0:
        return 0
    return draft.first_tokens + int(left / draft.step_ms)


def accepted_of(rate: float, free: int) -> float:
    """Expected tokens accepted of one line of `free` drafted ones: a(1 - a^N) / (1 - a), at most a / (1 - a).

    It takes acceptances to be independent of each other; where they come in runs it is no more than a first guess.
    """
    return float(free) if rate >= 1 else rate * (1 - rate**free) / (1 - rate)


@dataclass(frozen=True)
class ParallelPrefillEstimate:
    """An answer whose first block is drafted while the target prefills, on a device of its own, without contention.

    `free` tokens fit the window; `accepted` of them are expected to be, never more than `ceiling` = a / (1 - a) (None:
    no limit); `total_ms` is the whole answer's time, and `plain_ms` that of the target alone.
    """

    free: int
    accepted: float
    ceiling: float | None
    total_ms: float
    plain_ms: float

    @property
    def speedup(self) -> float:
        return self.plain_ms / self.total_ms


def parallel_prefill(
    target: AnswerPace,
    draft: AnswerPace,
    tokens: int,
    rate: float,
    *,
    verify_cost: float = 1.0,
) -> ParallelPrefillEstimate:
    """The gain of drafting inside the target's prefix: a step for every accepted token, less the pass over the block;
    never taken where it would be a loss.

    The first accepted token is the one the prefill gives anyway, and the pass adds one of the target's own: A accepted
    tokens spare A steps. A pass costs `verify_cost` steps, and is made only where the first draft stands (see
    `break_even.hidden_break_even_alpha`). The window is the target's whole prefix, and decoding after the block
    is plain.
    """
    free = free_tokens(target.prefix_ms, draft)
    steps = max(0, tokens - target.first_tokens)
    # Beyond the answer's end nothing can be accepted.
    accepted = accepted_of(rate, min(free, steps))
    extra = rate * verify_cost if accepted else 0.0
    is_gain = accepted > extra
    used, spent = (accepted, extra) if is_gain else (0.0, 0.0)
    total = target.prefix_ms + spent * target.step_ms + (steps - used) * target.step_ms
    return ParallelPrefillEstimate(free, used, acceptance_ceiling(rate), total, target.total_ms(tokens))


def best_sequential(rate: float, draft_cost: float, verify_cost: float = 1.0) -> tuple[int, float]:
    """(gamma, speedup) of the gamma up to LONGEST_GAMMA that decodes fastest; (0, 1.0): better not at all."""
    found = [
        (gamma, predicted_speedup(expected_tokens_per_round(rate, gamma), gamma, draft_cost, verify_cost) or 0.0)
        for gamma in range(1, LONGEST_GAMMA + 1)
    ]
    best = max(found, key=lambda pair: pair[1])
    return best if best[1] > 1 else (0, 1.0)
