"""Every definition of acceptance with its two counts, acceptance by place, and accepted tokens per round.

Definitions follow vLLM (`draft_acceptance_rate`, `mean_acceptance_length` with the bonus token), gpt-fast (mean
accepted, without it) and Leviathan et al. (alpha = 1 - TV(p, q), arXiv 2211.17192).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from evprof.core.records import DRAFT
from evprof.core.run_info import REENCODED
from evprof.core.run_log import RunLog
from evprof.metrics.configurations.baselines import baseline_of, draft_alone, runs_text
from evprof.metrics.figures.decoding import matching_ids
from evprof.metrics.speculation.outcome import Acceptance, acceptance, draft_depth, has_rejection, is_lossy, is_tree

SHARE, TOKENS = "share", "tokens"
"""Units of definitions: a share of counted things, or tokens a round."""

DRAFT_RATE, NODE_RATE, TOKEN_RATE, LENGTH, LENGTH_WITHOUT, EFFICIENCY, ALPHA, MATCH, AGREEMENT, HIDDEN, STEADY = (
    "draft acceptance rate",
    "tree node acceptance rate",
    "token acceptance rate",
    "mean acceptance length, bonus counted",
    "mean accepted length, bonus left out",
    "block efficiency",
    "alpha by total variation",
    "token match rate",
    "agreement with the plain answer",
    "hidden acceptance",
    "steady-state acceptance",
)
"""Names of definitions."""

_PPM = 1_000_000
_MOST_PLACES = 4096
"""Places of a round; more are damage."""


@dataclass(frozen=True)
class Definition:
    """One figure that is called acceptance: `formula` in words, its two counts, their quotient and a note.

    `value` is numerator / denominator in `unit` (SHARE or TOKENS); None over nothing.
    """

    name: str
    formula: str
    numerator: float | None
    denominator: float | None
    unit: str
    note: str = ""

    @property
    def value(self) -> float | None:
        """numerator / denominator; None over nothing."""
        return None if self.numerator is None or not self.denominator else self.numerator / self.denominator

    def to_json(self) -> dict[str, Any]:
        names = ("name", "formula", "numerator", "denominator", "value", "unit", "note")
        return {name: getattr(self, name) for name in names}


def definitions(run: RunLog, plain: RunLog | None = None) -> list[Definition]:
    """All figures of a run that speculates; [] for others.

    `plain` is an answer to compare token by token: the draft's own, or the target's for a lossy run.
    """
    return definitions_over([(run, plain)])


def definitions_over(pairs: Sequence[tuple[RunLog, RunLog | None]]) -> list[Definition]:
    """The same over several runs, each with a plain answer or None: counts are summed, long answers weigh more."""
    counted = [counts for run, _ in pairs if (counts := acceptance(run)) is not None]
    matches = _matches([(run, plain) for run, plain in pairs if plain is not None])
    if not counted:
        return matches
    total = sum(counted[1:], counted[0])
    found = [*_counted(total, is_tree(run for run, _ in pairs)), _alpha([run for run, _ in pairs]), *matches]
    return [*found, *_hidden(total)] if total.hidden_drafted else found


def _counted(counts: Acceptance, has_trees: bool) -> list[Definition]:
    """Counts of rounds. A file may give drafted and accepted tokens without rounds."""
    accepted, drafted, rounds = counts.accepted, counts.drafted, counts.rounds
    rate = "the bonus token is left out; what follows a rejection counts as rejected, so it falls with gamma"
    nodes = "the bonus token is left out; every node of a tree counts as drafted, so that this cannot come near 1"
    judged = (
        "of what the target judged; the same at every gamma only where acceptances are independent, so compare it at "
        "one gamma"
    )
    of_judged = "accepted / (accepted + first rejections)"
    bonus = "as vLLM and Spec-Bench count it: 1 when nothing is accepted"
    without = "as gpt-fast counts it: one less than with the bonus"
    emitted = "tokens of the answer per target call; a clipped last round has no bonus"
    return [
        Definition(NODE_RATE, "accepted / drafted nodes", accepted, drafted, SHARE, nodes)
        if has_trees
        else Definition(DRAFT_RATE, "accepted / drafted", accepted, drafted, SHARE, rate),
        Definition(TOKEN_RATE, of_judged, accepted, counts.judged if rounds else None, SHARE, judged),
        Definition(LENGTH, "1 + accepted / rounds", accepted + rounds, rounds, TOKENS, bonus),
        Definition(LENGTH_WITHOUT, "accepted / rounds", accepted, rounds, TOKENS, without),
        Definition(EFFICIENCY, "emitted / rounds", counts.emitted, rounds, TOKENS, emitted),
    ]


def _alpha(runs: Sequence[RunLog]) -> Definition:
    overlaps = [entry.overlap_ppm for run in runs for entry in run.judgements if entry.overlap_ppm >= 0]
    formula = "mean of the sum of min(p, q) over judged places"
    if not overlaps:
        note = "no probabilities were kept (--no-judgements, or a drafter that has none)"
        return Definition(ALPHA, formula, None, None, SHARE, note)
    note = "1 − TV(p, q): the chance that sampling accepts; greedy decoding accepts by the choices alone"
    return Definition(ALPHA, formula, sum(overlaps) / _PPM, len(overlaps), SHARE, note)


_MATCHES = (
    (MATCH, True, "the draft model's own answer ({}) against the target's ({}); nothing is drafted here"),
    (AGREEMENT, False, "the target's own answer ({}) against this one ({}); 1 where it is lossless and greedy"),
)


def _matches(pairs: Sequence[tuple[RunLog, RunLog]]) -> list[Definition]:
    """Same id at the same position, over the shorter answer; by the model of the plain answer."""
    formula = "same id at the same position / positions of the shorter answer"
    found = []
    for name, is_drafts, note in _MATCHES:
        mine = [(run, plain) for run, plain in pairs if (plain.info.role == DRAFT) == is_drafts]
        facts = [run.info.speculation for run, _ in mine if is_drafts]
        if any(entry is not None and entry.alignment == REENCODED for entry in facts):
            found.append(Definition(name, formula, None, None, SHARE, "the models' ids mean different text"))
        elif mine:
            names = [runs_text({pair[side].run_id for pair in mine}) for side in (1, 0)]
            found.append(Definition(name, formula, *matching_ids(mine), SHARE, note.format(*names)))
    return found


def _hidden(counts: Acceptance) -> list[Definition]:
    accepted, drafted = counts.hidden_accepted, counts.hidden_drafted
    hidden = "accepted / drafted, of what was drafted inside the target's prefill"
    steady = "accepted / drafted, of the rounds after the prefill"
    note = "" if counts.drafted > drafted else "no round followed the hidden block"
    return [
        Definition(
            HIDDEN,
            hidden,
            accepted,
            drafted,
            SHARE,
            "one block per answer, drafted before the target said anything",
        ),
        Definition(STEADY, steady, counts.accepted - accepted, counts.drafted - drafted, SHARE, note),
    ]


@dataclass(frozen=True)
class PlaceAcceptance:
    """Acceptance at one place of a round, from 0.

    `drafted` rounds had a token there, `judged` of them came so far, `accepted` of those took it. `overlap` is the mean
    of the sum of min(p, q) there; None without probabilities.
    """

    place: int
    drafted: int
    judged: int
    accepted: int
    overlap: float | None = None

    @property
    def conditional(self) -> float | None:
        """accepted / judged: the chance that this token stands when all before it do."""
        return self.accepted / self.judged if self.judged else None

    @property
    def unconditional(self) -> float | None:
        """accepted / drafted: the share of rounds that came past this place."""
        return self.accepted / self.drafted if self.drafted else None

    def to_json(self) -> dict[str, Any]:
        names = ("place", "drafted", "judged", "accepted", "conditional", "unconditional", "overlap")
        return {name: getattr(self, name) for name in names}


def per_position(*runs: RunLog, steady_only: bool = False) -> list[PlaceAcceptance]:
    """Acceptance by place over all rounds of all runs, up to the deepest that was drafted.

    `steady_only` leaves out blocks that were drafted inside the prefill.
    """
    drafted, judged, accepted = [], [], []
    overlaps: dict[int, list[int]] = {}
    for run in runs:
        left_out = {entry.round_index for entry in run.rounds if steady_only and entry.hidden}
        for entry in run.rounds:
            if not (steady_only and entry.hidden):
                drafted.append(draft_depth(run, entry))
                # An accepted end of sequence leaves the rest unjudged.
                judged.append(entry.accepted + has_rejection(run, entry))
                accepted.append(entry.accepted)
        for said in run.judgements:
            if said.overlap_ppm >= 0 and said.round_index not in left_out:
                overlaps.setdefault(said.place, []).append(said.overlap_ppm)
    return [
        PlaceAcceptance(
            place,
            sum(count > place for count in drafted),
            sum(count > place for count in judged),
            sum(count > place for count in accepted),
            fmean(overlaps[place]) / _PPM if place in overlaps else None,
        )
        for place in range(min(max(drafted, default=0), _MOST_PLACES))
    ]


def round_histogram(*runs: RunLog, steady_only: bool = False) -> dict[int, int]:
    """How many rounds accepted so many tokens, from 0 to the most, none left out; {} without rounds.

    `steady_only` leaves out blocks that were drafted inside the prefill.
    """
    counted = Counter(entry.accepted for run in runs for entry in run.rounds if not (steady_only and entry.hidden))
    return {accepted: counted[accepted] for accepted in range(max(counted, default=-1) + 1)}


def plain_answer(run: RunLog, others: Sequence[RunLog]) -> RunLog | None:
    """The plain answer for `definitions`: of a lossy run the target's, otherwise the draft's own."""
    if is_lossy(run):
        baseline = baseline_of(run, others)
        return baseline.runs[-1] if baseline else None
    drafts = draft_alone(run, others)
    return drafts[-1] if drafts else None
