"""The arithmetic of break-even: measured costs, the speed that they predict, and the acceptance that speculation needs.

Speed after Leviathan et al. (arXiv 2211.17192) with measured costs and whole rounds: c is a drafted token, v the rest
of a round (verification, rollback, the host's work), both in steps of the baseline. Costs paid once per answer (the
draft's own stages, preparing, catching up) stand apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from statistics import fmean

from evprof.core.records import RoundRecord
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.figures.kept import kept
from evprof.metrics.speculation.outcome import draft_depth


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


def with_hidden_drafts(target: AnswerPace, draft: AnswerPace, tokens: int, rate: float) -> tuple[float, float]:
    """(mean ms of an answer, accepted tokens of its block), for a block that is drafted in the target's prefix, on a
    device of its own, without contention; decoding after it is plain.

    A accepted tokens spare A steps, because prefill and pass give a token each anyway. The pass costs a step, and
    happens if the first draft stands. A loss counts as no gain.
    """
    steps = max(0, tokens - target.first_tokens)
    # Beyond the answer's end nothing can be accepted.
    accepted = accepted_of(rate, min(free_tokens(target.prefix_ms, draft), steps))
    gain = max(0.0, accepted - rate)
    return target.total_ms(tokens) - gain * target.step_ms, accepted if gain else 0.0


Chance = float | Sequence[float]
"""Acceptance: one chance for every drafted token, or one by place, the last of which holds for all that follow."""

Gamma = int | Mapping[int, float]
"""Drafted tokens a round: always as many, or the share of rounds by how many they drafted."""

GAMMAS = tuple(range(1, 13))
"""Drafted tokens a round that curves are drawn over."""

FEWEST_ROUNDS = 10
"""A width with fewer rounds has no measured costs."""

PREPARING = "prepare draft"
"""The span in which a drafter gets ready, part of stage decode."""

_STEPS = 50
"""Bisections; a float has 53 bits."""

_MOST_PLACES = 4096
"""Places of a round; more are damage."""

_MOST_EXACT = 1000
"""Tokens up to which whole rounds are counted one by one; beyond them, the mean number of a round is exact enough."""


@dataclass(frozen=True)
class RoundCosts:
    """Costs of rounds of speculation in ms. `step_ms` is the baseline's mean decode step.

    `draft_ms` and `rest_ms` are means over rounds by tokens drafted in a row (levels of a tree): of drafting, and of
    the rest of the round. `once_ms` is paid once per decode: preparing the drafter before the first round
    (`prepare_ms` of it) and catching up after the last. `rounds` counts the rounds of each width; `left_out` those of
    widths with fewer than FEWEST_ROUNDS, which are in no figure.
    """

    step_ms: float
    draft_ms: Mapping[int, float] = field(default_factory=dict)
    rest_ms: Mapping[int, float] = field(default_factory=dict)
    once_ms: float = 0.0
    prepare_ms: float = 0.0
    rounds: Mapping[int, float] = field(default_factory=dict)
    left_out: int = 0

    def drafting_ms(self, gamma: int) -> float:
        """Drafting so many tokens: as measured, else on the line through what was; nothing for none."""
        return _on_line({0: 0.0, **self.draft_ms}, gamma)

    def verifying_ms(self, gamma: int) -> float:
        """The rest of a round that drafted so many: as measured, else on the line through what was and a step."""
        return _on_line({0: self.step_ms, **self.rest_ms}, gamma)

    def c(self, gamma: int) -> float | None:
        """A drafted token in baseline steps; None where none is drafted."""
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


def widths_of(runs: Sequence[RunLog]) -> Counter[int]:
    """Rounds inside a measured decode stage by how many tokens in a row they drafted (levels of a tree)."""
    found: Counter[int] = Counter()
    for _, _, rows in filter(None, map(decode_costs, runs)):
        found.update({depth: count for depth, *_, count in rows})
    return found


def costs_of(runs: Sequence[RunLog], step_ms: float) -> RoundCosts | None:
    """Costs over the runs of a speculative configuration: totals over numbers of rounds, as speeds are means.

    None where no width has FEWEST_ROUNDS rounds in measured decode stages.
    """
    known = [costs for run in runs if (costs := decode_costs(run)) is not None]
    counted = widths_of(runs)
    used = {depth: count for depth, count in sorted(counted.items()) if count >= FEWEST_ROUNDS}
    if not used:
        return None
    rows = [row for *_, by_depth in known for row in by_depth]
    draft, rest = (
        {depth: sum(row[place] * row[3] for row in rows if row[0] == depth) / count for depth, count in used.items()}
        for place in (1, 2)
    )
    draft.pop(0, None)
    once, prepare = fmean(once for once, *_ in known), fmean(prepare for _, prepare, _ in known)
    return RoundCosts(step_ms, draft, rest, once, prepare, used, counted.total() - sum(used.values()))


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
    # What was drafted inside the prefill costs and gains elsewhere.
    decode, rounds = run.stage("decode", run.info.role), [entry for entry in run.rounds if not entry.hidden]
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


def round_chances(gamma: Gamma, alpha: Chance, most: int = _MOST_PLACES) -> list[float]:
    """The chances that a round gives 1, 2, … `most` tokens, more than that counted as `most`."""
    by_place = [alpha] if isinstance(alpha, (int, float)) else list(alpha) or [0.0]
    mix = mix_of(gamma)
    chances = [0.0] * max(1, min(most, 1 + max(count for count, _ in mix)))
    for count, share in mix:
        stands, last = share, max(0, min(count, len(chances) - 1))
        for place in range(last):
            accepted = stands * by_place[min(place, len(by_place) - 1)]
            chances[place] += stands - accepted
            stands = accepted
        chances[last] += stands
    return chances


def tau(gamma: Gamma, alpha: Chance) -> float:
    """Tokens of a round: 1 + a1 + a1 a2 + …, which is (1 - a^(gamma+1)) / (1 - a) for one chance a."""
    return sum(count * chance for count, chance in enumerate(round_chances(gamma, alpha), 1))


def expected_rounds(tokens: int, gamma: Gamma, alpha: Chance) -> float:
    """The mean number of whole rounds until they gave `tokens` tokens: R(m) = 1 + sum of P(k tokens) R(m - k)."""
    exact = min(tokens, _MOST_EXACT)
    chances = round_chances(gamma, alpha, exact)
    known = [0.0]
    for _ in range(exact):
        known.append(1 + sum(map(mul, chances, reversed(known))))
    return known[-1] + (tokens - exact) / tau(gamma, alpha) if tokens > exact else known[-1]


@dataclass(frozen=True)
class Point:
    """A point of the curve: drafted tokens of a round, costs in baseline steps, and the speed of decoding."""

    gamma: int
    tau: float
    c: float | None
    v: float
    speedup: float


def curve(costs: RoundCosts, alpha: Chance, tokens: int) -> list[Point]:
    """The speed of decoding an answer of `tokens` tokens for each of GAMMAS."""
    return [
        Point(
            gamma,
            tau(gamma, alpha),
            costs.c(gamma),
            costs.v(gamma),
            answer_speedup(costs, gamma, alpha, max(2, tokens)),
        )
        for gamma in GAMMAS
    ]


def answer_ms(costs: RoundCosts, gamma: Gamma, alpha: Chance, tokens: int, preparation_ms: float = 0.0) -> float:
    """Time of an answer of so many tokens after the target's prefill, the draft's own stages included."""
    return preparation_ms + costs.once_ms + expected_rounds(tokens - 1, gamma, alpha) * costs.round_ms(gamma)


def answer_speedup(costs: RoundCosts, gamma: Gamma, alpha: Chance, tokens: int, preparation_ms: float = 0.0) -> float:
    """The baseline's decoding of the same answer / `answer_ms`; below 1 speculation costs time. 0.0 below two tokens,
    which take no decoding."""
    if tokens < 2:
        return 0.0
    return (tokens - 1) * costs.step_ms / answer_ms(costs, gamma, alpha, tokens, preparation_ms)


def break_even_alpha(costs: RoundCosts, gamma: Gamma, tokens: int, preparation_ms: float = 0.0) -> float | None:
    """The chance per drafted token above which speculation pays; 0.0 where it always does, None where it never can."""

    def gain(alpha: float) -> float:
        return answer_speedup(costs, gamma, alpha, tokens, preparation_ms) - 1

    if gain(1.0) < 0:
        return None
    return 0.0 if gain(0.0) >= 0 else _crossing(gain, 0.0, 1.0)


def break_even_rate(gamma: Gamma, alpha: float | None) -> float | None:
    """The break-even `alpha` as accepted / drafted, which is what the draft acceptance rate says."""
    drafted = sum(count * share for count, share in mix_of(gamma))
    return None if alpha is None or drafted <= 0 else (tau(gamma, alpha) - 1) / drafted


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
