"""The arithmetic of break-even: measured costs, the speed that they predict, and the acceptance that speculation needs.

S = tau / (gamma c + v) after Leviathan et al. (arXiv 2211.17192) with measured costs: c is a drafted token, v the rest
of a round (verification, rollback, the host's work), both in plain target steps. Costs paid once per answer (the
draft's own stages, preparing, catching up) stand apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from evprof.core.records import RoundRecord
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.figures.kept import kept
from evprof.metrics.speculation.outcome import draft_depth, expected_tokens_per_round

OUTPUT_LENGTHS = (5, 20, 50, 100)
"""Tokens of an answer in tables of expected totals."""


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
    """Tokens of the draft within a window in which the target is busy."""
    left = window_ms - draft.prefix_ms
    return 0 if left < 0 else draft.first_tokens + int(left / draft.step_ms)


def accepted_of(rate: float, free: int) -> float:
    """Expected accepted tokens of `free` drafted ones in a row, independent of each other: a(1 - a^N) / (1 - a)."""
    return float(free) if rate >= 1 else rate * (1 - rate**free) / (1 - rate)


@dataclass(frozen=True)
class ParallelPrefillEstimate:
    """An answer whose first block is drafted while the target prefills, on a device of its own, without contention.

    `free` tokens fit the window, of which `accepted` are expected. `total_ms` is the time of the whole answer, and
    `plain_ms` that of the target alone.
    """

    free: int
    accepted: float
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
    """The gain of drafting inside the target's prefix: a step for every accepted token, less the pass over the block.

    The prefill gives the first accepted token anyway, and the pass adds one of the target's own: A accepted tokens
    spare A steps. A pass costs `verify_cost` steps, and happens only if the first draft stands (see
    `hidden_break_even_alpha`). Decoding after the block is plain. A loss counts as no gain.
    """
    free = free_tokens(target.prefix_ms, draft)
    steps = max(0, tokens - target.first_tokens)
    # Beyond the answer's end nothing can be accepted.
    accepted = accepted_of(rate, min(free, steps))
    extra = rate * verify_cost if accepted else 0.0
    is_gain = accepted > extra
    used, spent = (accepted, extra) if is_gain else (0.0, 0.0)
    total = target.prefix_ms + spent * target.step_ms + (steps - used) * target.step_ms
    return ParallelPrefillEstimate(free, used, total, target.total_ms(tokens))


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
"""Bisections; a float has 53 bits."""


@dataclass(frozen=True)
class RoundCosts:
    """Costs of rounds of speculation in ms. `step_ms` is the plain target's decode step.

    `draft_ms` and `rest_ms` are means by tokens drafted in a row (levels of a tree): of drafting, and of the rest of
    the round. `once_ms` is paid once per decode: preparing the drafter before the first round (`prepare_ms` of it) and
    catching up after the last.
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
    """The known value, one between its neighbours, or one beyond the last two that is not below the last."""
    places = sorted(known)
    if at in known or len(places) == 1:
        return known.get(at, known[places[0]])
    above = [place for place in places if place > at]
    low, high = (max(place for place in places if place < at), above[0]) if above else places[-2:]
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
    known = [costs for run in runs if (costs := decode_costs(run)) is not None]
    if not known:
        return None
    rounds = [row for _, _, by_depth in known for row in by_depth]
    counted = dict.fromkeys(sorted({depth for depth, *_ in rounds}), 0)
    for depth, _, _, count in rounds:
        counted[depth] += count
    used = [depth for depth, count in counted.items() if count >= _FEWEST_ROUNDS] or list(counted)
    draft, rest = (
        {depth: median(row[place] for row in rounds if row[0] == depth) for depth in used} for place in (1, 2)
    )
    draft.pop(0, None)
    return RoundCosts(step_ms, draft, rest, median(costs[0] for costs in known), median(costs[1] for costs in known))


@kept()
def decode_costs(run: RunLog) -> tuple[float, float, list[tuple[int, float, float, int]]] | None:
    """The costs of one run: ms paid once, ms of preparing, and rows of tokens drafted in a row, mean ms of drafting,
    mean ms of the rest, and number of rounds. None without a steady round in a measured decode stage."""
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
    """Time of the drafter's preparation inside decode."""
    decode = run.stage("decode", run.info.role)
    parts = () if decode is None else run.children(decode.span_id)
    return sum(ms_from_ns(part.duration_ns or 0) for part in parts if part.name == PREPARING)


def tau(gamma: Gamma, alpha: Chance) -> float:
    """Tokens of a round: 1 + a1 + a1 a2 + …, which is (1 - a^(gamma+1)) / (1 - a) for one chance a."""
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
    """S = tau / (gamma c + v): the speed of decoding, without the costs paid once."""
    return tau(gamma, alpha) * costs.step_ms / costs.round_ms(gamma)


@dataclass(frozen=True)
class Point:
    """A point of the curve: drafted tokens of a round, costs in plain steps, and the speed."""

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
    """Tokens of a round with which the answer takes as long as plain decoding; None where no number is enough."""
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
    """The chance per token above which a block of `free` drafts inside the prefill pays; 0.0: always, None: never.

    The mean gain over blocks is E[A] t - P(pass) T_verify - contention: A accepted drafts save A plain steps t. A
    greedy answer makes the pass only if the first draft stands, a sampled one always. `contention_ms` is the extra time
    of the target's own stages. The gain is convex in the chance, so it crosses 0 at most once.
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
"""A loss below this share of a step is rounding."""


def _crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """The chance between two at which a function crosses 0 upwards."""
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high
