"""Whether speculation can win here: its costs as measured, the speed they predict, and the acceptance it would take.

S = tau / (gamma c + v) after Leviathan et al. (arXiv 2211.17192), with c and v measured instead of assumed: c is a
drafted token, v all else of a round (verification, rollback, what the host does around), both in plain target steps.
What is paid once per answer (the draft's own stages, preparing, catching up) stands apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from evprof.core.records import RoundRecord
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.figures.kept import kept
from evprof.metrics.speculation.outcome import (
    acceptance_ceiling,
    draft_depth,
    expected_tokens_per_round,
    predicted_speedup,
)

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


Chance = float | Sequence[float]
"""Acceptance: one chance for every drafted token, or one by place, the last of which holds for all that follow."""

Gamma = int | Mapping[int, float]
"""Drafted tokens a round: always as many, or the share of rounds by how many they drafted."""

GAMMAS = tuple(range(1, 13))
"""Drafted tokens a round that curves are drawn over."""

_FEWEST_ROUNDS = 10
"""A width that fewer rounds had is not relied on where others are known."""

PREPARING = "prepare draft"
"""The span in which a drafter gets ready, part of stage decode."""

_STEPS = 60
"""Bisections: more than a float's 53 bits need."""


@dataclass(frozen=True)
class RoundCosts:
    """What rounds of speculation cost, in ms. `step_ms` is the plain target's decode step.

    `draft_ms` and `rest_ms` are the means by tokens drafted in a row: of drafting so many, and of all else in such a
    round. Of a tree its levels count, each with all of its nodes.
    `once_ms` is what decoding pays once: preparing the drafter before the first round (`prepare_ms` of it, where a span
    says so) and catching up after the last.
    """

    step_ms: float
    draft_ms: Mapping[int, float] = field(default_factory=dict)
    rest_ms: Mapping[int, float] = field(default_factory=dict)
    once_ms: float = 0.0
    prepare_ms: float = 0.0

    def drafting_ms(self, gamma: int) -> float:
        """Drafting so many tokens: as measured, else on the line through what was; nothing for none."""
        return _on_line({0: 0.0, **self.draft_ms}, gamma)

    def verifying_ms(self, gamma: int) -> float:
        """The rest of a round that drafted so many: as measured, else on the line through what was and a plain step."""
        return _on_line({0: self.step_ms, **self.rest_ms}, gamma)

    def c(self, gamma: int) -> float | None:
        """A drafted token in plain steps; None where none is drafted."""
        return self.drafting_ms(gamma) / gamma / self.step_ms if gamma else None

    def v(self, gamma: int) -> float:
        return self.verifying_ms(gamma) / self.step_ms

    def round_ms(self, gamma: Gamma) -> float:
        return sum(share * (self.drafting_ms(count) + self.verifying_ms(count)) for count, share in mix_of(gamma))


def _on_line(known: Mapping[int, float], at: int) -> float:
    """The value at a place: known, between its neighbours, or on from the last two (never falling)."""
    if at in known:
        return known[at]
    places = sorted(known)
    if len(places) == 1:
        return known[places[0]]
    below = [place for place in places if place < at]
    above = [place for place in places if place > at]
    low, high = (below[-1], above[0]) if below and above else tuple(places[-2:])
    slope = (known[high] - known[low]) / (high - low)
    return known[low] + (at - low) * slope if above else known[high] + (at - high) * max(0.0, slope)


def mix_of(gamma: Gamma) -> list[tuple[int, float]]:
    """(drafted tokens, share of rounds), the shares adding up to 1."""
    if isinstance(gamma, int):
        return [(gamma, 1.0)]
    whole = sum(gamma.values())
    return [(count, share / whole) for count, share in gamma.items()]


def steady_rounds(run: RunLog) -> list[RoundRecord]:
    """The rounds inside decode; what was drafted inside the prefill costs and gains elsewhere."""
    return [entry for entry in run.rounds if not entry.hidden]


def gammas_of(runs: Sequence[RunLog]) -> dict[int, float]:
    """Share of steady rounds by how many tokens in a row they drafted (levels of a tree); {} without rounds."""
    depths = [draft_depth(run, entry) for run in runs for entry in steady_rounds(run)]
    return {depth: depths.count(depth) / len(depths) for depth in sorted(set(depths))}


def costs_of(runs: Sequence[RunLog], step_ms: float) -> RoundCosts | None:
    """Costs over the repeats of a speculative request: means within a run, their medians over runs.

    None without a steady round in a measured decode stage.
    """
    draft: dict[int, list[float]] = {}
    rest: dict[int, list[float]] = {}
    counted: dict[int, int] = {}
    once: list[float] = []
    prepared: list[float] = []
    for run in runs:
        spent = decode_costs(run)
        if spent is None:
            continue
        once_ms, preparing_ms, by_depth = spent
        once.append(once_ms)
        prepared.append(preparing_ms)
        for count, draft_ms, rest_ms, rounds in by_depth:
            draft.setdefault(count, []).append(draft_ms)
            rest.setdefault(count, []).append(rest_ms)
            counted[count] = counted.get(count, 0) + rounds
    if not once:
        return None
    relied = {count for count, rounds in counted.items() if rounds >= _FEWEST_ROUNDS} or set(counted)
    return RoundCosts(
        step_ms,
        {count: median(values) for count, values in draft.items() if count in relied and count},
        {count: median(values) for count, values in rest.items() if count in relied},
        median(once),
        median(prepared),
    )


@kept()
def decode_costs(run: RunLog) -> tuple[float, float, list[tuple[int, float, float, int]]] | None:
    """The costs of one run: ms paid once, ms of preparing, and by tokens drafted in a row the mean ms of drafting them,
    of the rest of such a round, and the number of rounds. None without a steady round in a measured decode stage."""
    split = split_decode(run)
    if split is None:
        return None
    by_depth: dict[int, list[tuple[float, float]]] = {}
    for entry, gap in split[1]:
        rest_ns = entry.verify_ns + entry.rollback_ns + gap
        by_depth.setdefault(draft_depth(run, entry), []).append((ms_from_ns(entry.draft_ns), ms_from_ns(rest_ns)))
    rows = [
        (depth, fmean(draft_ms for draft_ms, _ in spent), fmean(rest_ms for _, rest_ms in spent), len(spent))
        for depth, spent in by_depth.items()
    ]
    return split[0], prepare_ms(run), rows


def split_decode(run: RunLog) -> tuple[float, list[tuple[RoundRecord, int]]] | None:
    """(ms paid once, [(round, ns until the next begins)]): together they are the decode stage."""
    decode, rounds = run.stage("decode", run.info.role), steady_rounds(run)
    if decode is None or decode.end_ns is None or not decode.is_settled or not rounds:
        return None
    ends = [entry.start_ns + entry.draft_ns + entry.verify_ns + entry.rollback_ns for entry in rounds]
    gaps = [max(0, after.start_ns - end) for end, after in zip(ends, rounds[1:], strict=False)]
    once = max(0, rounds[0].start_ns - decode.start_ns) + max(0, decode.end_ns - ends[-1])
    return ms_from_ns(once), list(zip(rounds, [*gaps, 0], strict=True))


def prepare_ms(run: RunLog) -> float:
    """What the drafter took inside decode before it could draft: a head that looks at the prompt, for one."""
    decode = run.stage("decode", run.info.role)
    parts = () if decode is None else run.children(decode.span_id)
    return sum(ms_from_ns(part.duration_ns or 0) for part in parts if part.name == PREPARING)


def tau(gamma: Gamma, alpha: Chance) -> float:
    """Tokens a round gives: 1 + a1 + a1 a2 + …, which is (1 - a^(gamma+1)) / (1 - a) for one chance a."""
    return sum(share * _tau(count, alpha) for count, share in mix_of(gamma))


def _tau(gamma: int, alpha: Chance) -> float:
    if isinstance(alpha, (int, float)):
        return expected_tokens_per_round(alpha, gamma)
    total = stands = 1.0
    for place in range(gamma):
        stands *= alpha[min(place, len(alpha) - 1)] if alpha else 0.0
        total += stands
    return total


def speedup(gamma: Gamma, alpha: Chance, costs: RoundCosts) -> float:
    """S = tau / (gamma c + v): how many times as fast decoding is, without what is paid once."""
    return tau(gamma, alpha) * costs.step_ms / costs.round_ms(gamma)


@dataclass(frozen=True)
class Point:
    """One place of the curve: so many tokens drafted a round, costs there in plain steps, and the speed they give."""

    gamma: int
    tau: float
    c: float | None
    v: float
    speedup: float


def curve(costs: RoundCosts, alpha: Chance, gammas: Sequence[int] = GAMMAS) -> list[Point]:
    return [
        Point(gamma, tau(gamma, alpha), costs.c(gamma), costs.v(gamma), speedup(gamma, alpha, costs))
        for gamma in gammas
    ]


def answer_ms(costs: RoundCosts, gamma: Gamma, alpha: Chance, tokens: int, preparation_ms: float = 0.0) -> float:
    """Time of an answer of so many tokens after the target's prefill, the draft's own stages included."""
    return preparation_ms + costs.once_ms + max(0, tokens - 1) / tau(gamma, alpha) * costs.round_ms(gamma)


def answer_speedup(costs: RoundCosts, gamma: Gamma, alpha: Chance, tokens: int, preparation_ms: float = 0.0) -> float:
    """Plain decoding of the same answer / `answer_ms`; below 1 speculation costs time."""
    return (tokens - 1) * costs.step_ms / answer_ms(costs, gamma, alpha, tokens, preparation_ms)


def break_even_tau(costs: RoundCosts, gamma: Gamma, tokens: int, preparation_ms: float = 0.0) -> float | None:
    """Tokens a round has to give for the answer to take as long as plain decoding; None where no number is enough."""
    budget = (tokens - 1) * costs.step_ms - preparation_ms - costs.once_ms
    return (tokens - 1) * costs.round_ms(gamma) / budget if budget > 0 else None


def break_even_alpha(costs: RoundCosts, gamma: Gamma, tokens: int, preparation_ms: float = 0.0) -> float | None:
    """The chance per drafted token above which speculation pays; 0.0 where it always does, None where it never can."""
    needed = break_even_tau(costs, gamma, tokens, preparation_ms)
    if needed is None or tau(gamma, 1.0) < needed:
        return None
    return 0.0 if needed <= tau(gamma, 0.0) else _crossing(lambda alpha: tau(gamma, alpha) - needed, 0.0, 1.0)


def break_even_rate(costs: RoundCosts, gamma: Gamma, tokens: int, preparation_ms: float = 0.0) -> float | None:
    """The same as accepted / drafted, which is what the draft acceptance rate says; None where it never can."""
    needed = break_even_tau(costs, gamma, tokens, preparation_ms)
    drafted = sum(count * share for count, share in mix_of(gamma))
    if needed is None or drafted <= 0 or needed > 1 + drafted:
        return None
    return max(0.0, (needed - 1) / drafted)


def hidden_break_even_alpha(
    free: int, step_ms: float, verify_ms: float, contention_ms: float = 0.0, *, is_greedy: bool = True
) -> float | None:
    """The chance per token above which a block of `free` drafts inside the prefill pays; 0.0 where it always does, None
    where it never can.

    The mean gain over blocks is E[A] t - P(pass) T_verify - contention: A accepted drafts save A plain steps t.
    The prefill's logits judge the first draft, so a greedy answer makes the pass only where that draft stands. A drawn
    answer always makes the pass. `verify_ms` is 0 where no pass is made, `contention_ms` the extra time of the target's
    own stages. The gain is convex in the chance, so it rises through 0 at most once.
    """

    def gain(alpha: float) -> float:
        passes = (alpha if is_greedy else 1.0) if free else 0.0
        return accepted_of(alpha, free) * step_ms - passes * verify_ms - contention_ms

    if gain(1.0) <= 0:
        return None
    losing = [chance for chance in _GRID if gain(chance) < -_NOTHING * step_ms]
    return _crossing(gain, losing[-1], 1.0) if losing else 0.0


_GRID = tuple(place / 1000 for place in range(1000))

_NOTHING = 1e-9
"""Of a step: a loss that is the arithmetic's."""


def _crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """The chance between two at which a function that is below 0 and then not reaches 0."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high
