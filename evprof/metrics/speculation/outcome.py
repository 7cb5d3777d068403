"""Counts of speculation: acceptance by the field's definitions, and its ceiling.

Definitions follow vLLM: `draft_acceptance_rate = accepted / drafted` leaves the bonus token out,
`mean_acceptance_length = 1 + accepted / rounds` counts it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import accumulate, zip_longest
from typing import Any

from evprof.core.records import RoundRecord
from evprof.core.run_info import ImportedFacts
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.energy_curve import Interval
from evprof.metrics.configurations.gathering import sample_key
from evprof.metrics.figures.decoding import answer_ids
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.stages import settled_intervals, union_ns


@dataclass(frozen=True)
class Acceptance:
    """Counts over the rounds of one run. `bonus` are the target's own tokens: one per round less a final clip. What an
    imported file does not count is None, and its rounds 0 where it does not tell them."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int | None = 0
    bonus: int | None = 0
    rejected_rounds: int | None = 0
    hidden_drafted: int = 0
    hidden_accepted: int = 0
    per_position: tuple[int, ...] = ()

    @property
    def draft_acceptance_rate(self) -> float | None:
        """accepted / drafted, the bonus excluded; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted / rounds, the bonus included; None without rounds."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def token_acceptance_rate(self) -> float | None:
        """Chance that the next drafted token is accepted: accepted / (accepted + first rejections).

        Positions after a round's first rejection are never judged. None when nothing was judged.
        """
        return self.accepted / self.judged if self.judged else None

    @property
    def judged(self) -> int | None:
        """Drafted tokens that the target came to; None where first rejections are not counted."""
        return None if self.rejected_rounds is None else self.accepted + self.rejected_rounds

    def __add__(self, other: Acceptance) -> Acceptance:
        summed: dict[str, Any] = {}
        for name in (entry.name for entry in fields(self) if entry.name != "per_position"):
            both = getattr(self, name), getattr(other, name)
            summed[name] = None if None in both else sum(both)
        places = zip_longest(self.per_position, other.per_position, fillvalue=0)
        return Acceptance(**summed, per_position=tuple(map(sum, places)))


_DIGITS = 10
"""Of a number that can be one of a tree's widths."""


def draft_depth(run: RunLog, entry: RoundRecord) -> int:
    """How many tokens in a row a round drafted: of a tree its levels, of a chain all of its tokens."""
    if entry.depth >= 0:
        return entry.depth
    facts = run.info.speculation
    if facts is None or not facts.tree:
        return entry.drafted
    depth = nodes = 0
    level = 1
    # In a damaged file, a width that is no number ends the tree.
    for width in facts.tree.split(","):
        level *= int(width) if width.isdecimal() and len(width) < _DIGITS else entry.drafted + 1
        if nodes + level > entry.drafted:
            break
        nodes, depth = nodes + level, depth + 1
    return max(depth, entry.accepted)


def is_tree(runs: Iterable[RunLog]) -> bool:
    """Whether a run among these drafted trees, so that most drafted tokens cannot be accepted."""
    return any(run.info.speculation is not None and run.info.speculation.tree for run in runs)


def has_rejection(run: RunLog, entry: RoundRecord) -> bool:
    """Whether the target put another token in place of a drafted one; neither an end nor a clip rejects."""
    if entry.judged >= 0:
        return entry.judged > entry.accepted
    return entry.accepted < draft_depth(run, entry) and entry.emitted > entry.accepted


def is_lossy(run: RunLog) -> bool:
    """Whether a run's answer need not be the target's own: by its mode, or by what it says of its drafter."""
    facts = run.info.speculation
    return not (mode_of(run.info.mode).is_lossless and (facts is None or facts.is_lossless))


@kept()
def rounds_of(run: RunLog) -> list[list[Any]]:
    """The rounds of a run as rows without its number (`RunLog.rounds` reads them)."""
    return [list(entry[1:]) for entry in run.rounds]


@kept()
def judged_count(run: RunLog) -> int:
    return len(run.judgements)


def round_count(run: RunLog) -> int:
    return len(run.rounds)


def acceptance(run: RunLog) -> Acceptance | None:
    """Counts over all rounds so far; None for a run without speculation, zeros before its first round."""
    if not run.rounds:
        if run.info.imported is not None:
            return _imported_acceptance(run.info.imported)
        return Acceptance() if mode_of(run.info.mode).drafts else None
    hidden = [entry for entry in run.rounds if entry.hidden]
    return Acceptance(
        rounds=len(run.rounds),
        drafted=sum(entry.drafted for entry in run.rounds),
        accepted=sum(entry.accepted for entry in run.rounds),
        emitted=sum(entry.emitted for entry in run.rounds),
        bonus=sum(max(0, entry.emitted - entry.accepted) for entry in run.rounds),
        rejected_rounds=sum(has_rejection(run, entry) for entry in run.rounds),
        hidden_drafted=sum(entry.drafted for entry in hidden),
        hidden_accepted=sum(entry.accepted for entry in hidden),
        per_position=_reaching(accepted_histogram(run)),
    )


def acceptance_of_all(runs: Iterable[RunLog]) -> Acceptance:
    """The counts of several runs, summed; zeros where none of them speculates."""
    return sum((counts for run in runs if (counts := acceptance(run)) is not None), Acceptance())


def _reaching(counted: Counter[int]) -> tuple[int, ...]:
    """How many rounds accepted more than 0, 1, … tokens; `counted` says how many accepted exactly so many."""
    return tuple(accumulate(counted[accepted] for accepted in range(max(counted, default=0), 0, -1)))[::-1]


def _imported_acceptance(imported: ImportedFacts) -> Acceptance | None:
    """Counts of a whole answer; 0 rounds where the file does not tell how many there were."""
    drafted, accepted = (imported.figures.get(name) for name in ("drafted_tokens", "accepted_tokens"))
    if drafted is None or accepted is None:
        return None
    rounds = round(imported.figures.get("verified_rounds", 0))
    reached = _reaching(_told_histogram(imported))
    return Acceptance(rounds, round(drafted), round(accepted), None, None, None, per_position=reached)


def _told_histogram(imported: ImportedFacts) -> Counter[int]:
    told = imported.accepted_histogram.items()
    # Of what a damaged session says, as much as can be counted.
    return Counter({int(accepted): rounds for accepted, rounds in told if accepted.isdecimal() and len(accepted) < 6})


def accepted_histogram(run: RunLog) -> Counter[int]:
    """How many rounds accepted so many tokens; empty where that is not known."""
    if run.info.imported is not None and not run.rounds:
        return _told_histogram(run.info.imported)
    return Counter(entry.accepted for entry in run.rounds)


def expected_tokens_per_round(rate: float, gamma: int) -> float:
    """tau = (1 - a^(gamma+1)) / (1 - a): tokens per target call when each drafted token is accepted with chance a."""
    return float(gamma + 1) if rate >= 1 else (1 - rate ** (gamma + 1)) / (1 - rate)


FEWEST_REJECTIONS = 5
"""Fewer first rejections give no ceiling: with one of them it only repeats how many tokens were accepted."""

_Z = 1.959963984540054


@dataclass(frozen=True)
class AcceptanceCeiling:
    """Accepted tokens a block that no number of drafted tokens can exceed, if every token is accepted with the same
    chance whatever came before; with its 95 % interval (the upper end None: no limit)."""

    value: float
    interval: tuple[float, float | None]
    rejections: int


def ceiling_of(runs: Iterable[RunLog], *, hidden_only: bool = False) -> AcceptanceCeiling | None:
    """a / (1 - a) of the distinct answers among `runs`, or of their hidden blocks alone; None below FEWEST_REJECTIONS.

    a = accepted / judged; its interval is Wilson's score interval (1927).
    """
    distinct = distinct_answers(runs)
    listed = [(run, entry) for run in distinct for entry in run.rounds if entry.hidden or not hidden_only]
    accepted = sum(entry.accepted for _, entry in listed)
    rejections = sum(has_rejection(run, entry) for run, entry in listed)
    if rejections < FEWEST_REJECTIONS:
        return None
    judged = accepted + rejections
    rate, spread = accepted / judged, _Z**2 / judged
    middle, half = (rate + spread / 2) / (1 + spread), math.sqrt(rate * (1 - rate) / judged * _Z**2 + spread**2 / 4)
    low, high = max(0.0, middle - half / (1 + spread)), min(1.0, middle + half / (1 + spread))
    return AcceptanceCeiling(accepted / rejections, (low / (1 - low), acceptance_ceiling(high)), rejections)


def ceiling_json(found: AcceptanceCeiling | None) -> dict[str, Any]:
    """The keys `ceiling` and `ceiling_ci95` of the JSON."""
    return {
        "ceiling": None if found is None else found.value,
        "ceiling_ci95": None if found is None else list(found.interval),
    }


def distinct_answers(runs: Iterable[RunLog]) -> list[RunLog]:
    """One run for each answer to a sample, the one that drafted most: greedy repeats are one observation of acceptance.

    Imported runs without rounds all count, because nothing shows that two of their answers are the same.
    """
    found: dict[object, RunLog] = {}
    for run in runs:
        drafting = run.info.mode, run.info.settings.speculation
        key = (sample_key(run), drafting, answer_ids(run)) if run.info.imported is None else run.run_id
        known = found.setdefault(key, run)
        if acceptance_of_all([run]).drafted > acceptance_of_all([known]).drafted:
            found[key] = run
    return list(found.values())


def acceptance_ceiling(rate: float) -> float | None:
    """a / (1 - a): accepted tokens per round that no number of drafted tokens can exceed; None (no limit) at a = 1."""
    return rate / (1 - rate) if rate < 1 else None


@kept()
def preparation_ms(run: RunLog) -> float:
    """Time in ms that only the draft's load…prefill take: the union of all stages less that of the target's own."""
    everything = settled_intervals(run)
    own: list[Interval] = settled_intervals(run, role=run.info.role)
    return ms_from_ns(union_ns(everything) - union_ns(own))
