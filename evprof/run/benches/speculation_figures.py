"""What runs of a drafter say beside plain runs of the same questions: costs, prediction, speedups, agreement.

A prediction is made from one half of the runs and held against the other half, so that it can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.estimates.estimates import observe, question_of, scene_of, verdict
from evprof.metrics.figures.decoding import decode_ms_per_token
from evprof.metrics.figures.stages import stage_ms, wall_ms
from evprof.metrics.speculation.outcome import acceptance

PREPARING = "prepare draft"
"""The span in which a drafter takes the prompt in, inside stage decode."""


@dataclass(frozen=True)
class DraftingTurn:
    """A plain run and a drafted one of the same question, made one after the other."""

    plain: RunLog
    drafted: RunLog

    @property
    def plain_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.plain.tokens)

    @property
    def drafted_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.drafted.tokens)

    @property
    def is_same(self) -> bool:
        return self.plain_ids == self.drafted_ids


def turn_of(run: Callable[[RunRequest], RunLog], plain: RunRequest, drafted: RunRequest, repeat: int) -> DraftingTurn:
    """Runs a plain and a drafted request, every other repeat the drafted one first."""
    if repeat % 2 == 0:
        return DraftingTurn(run(plain), run(drafted))
    second = run(drafted)
    return DraftingTurn(run(plain), second)


@dataclass(frozen=True)
class DraftingCosts:
    """Of a drafter, in plain target steps: `draft` per drafted token, `verify` per round (all of a round that is not
    drafting: the pass, rolling back, writing down), `preparation` per answer; `step_ms` is the plain step. All are
    medians over runs, each in steps of the plain run beside it, so that a machine's moods cancel."""

    draft: float
    verify: float
    preparation: float
    step_ms: float


def costs_of(turns: Sequence[DraftingTurn]) -> DraftingCosts | None:
    """None where nothing was drafted or no step was timed, and where drafting lay outside stage decode."""
    beside = [(step, turn.drafted) for turn in turns if (step := decode_ms_per_token(turn.plain))]
    drafting = [spent / step for step, run in beside if (spent := _draft_ms(run)) is not None]
    verifying = [spent / step for step, run in beside if (spent := _verify_ms(run)) is not None]
    if not verifying:
        return None
    return DraftingCosts(
        median(drafting) if drafting else 0.0,
        median(verifying),
        median([_preparation_ms(run) / step for step, run in beside]),
        median([step for step, _ in beside]),
    )


def predicted_speedup(costs: DraftingCosts, runs: Sequence[RunLog]) -> float | None:
    """S = tokens / (rounds (gamma c + v) + preparation), tau and gamma as they came; None without rounds."""
    counted = [counts for run in runs if (counts := acceptance(run)) is not None and counts.rounds]
    rounds = sum(counts.rounds for counts in counted)
    if not rounds:
        return None
    drafted, emitted = sum(counts.drafted for counts in counted), sum(counts.emitted or 0 for counts in counted)
    spent = drafted * costs.draft + rounds * costs.verify + len(counted) * costs.preparation
    return emitted / spent if spent > 0 else None


def unlike(turns: Sequence[DraftingTurn]) -> list[DraftingTurn]:
    """Turns that say something new: repeats that draft and answer as one before are one observation of it."""
    found: dict[tuple[object, ...], DraftingTurn] = {}
    for turn in turns:
        rounds = tuple((entry.drafted, entry.accepted) for entry in turn.drafted.rounds)
        found.setdefault((question_of(turn.drafted), turn.plain_ids, turn.drafted_ids, rounds), turn)
    return list(found.values())


def measured(turns: Sequence[DraftingTurn]) -> dict[str, Any]:
    """Speedups of a drafter, mean plain time / mean drafted time, with intervals clustered by scene; whether different
    answers agree; and how many runs, scenes and tokens of plain answers, each counted once, that is made of."""
    found: dict[str, Any] = {}
    reads: tuple[tuple[str, Callable[[RunLog], float | None]], ...] = (
        ("decode", lambda run: stage_ms(run, "decode")),
        ("end_to_end", wall_ms),
    )
    for name, read in reads:
        whole = [turn for turn in turns if read(turn.plain) is not None and read(turn.drafted)]
        ratio = verdict(observe((t.drafted for t in whole), read), observe((t.plain for t in whole), read))
        found[f"{name}_speedup"] = ratio.ratio if ratio else None
        found[f"{name}_ci95"] = list(ratio.interval) if ratio and ratio.interval else None
    different = unlike(turns)
    answers = {(question_of(turn.plain), turn.plain_ids) for turn in turns}
    return found | {
        "same_answers": sum(turn.is_same for turn in different),
        "answers": len(different),
        "runs": len(turns),
        "scenes": len({scene_of(turn.plain) for turn in turns}),
        "unique_tokens": sum(len(ids) for _, ids in answers),
    }


def acceptance_of(runs: Sequence[RunLog]) -> dict[str, Any]:
    """Counts over runs of different questions, and the rates made of them; None where nothing was drafted."""
    counted = [counts for run in runs if (counts := acceptance(run)) is not None]
    drafted, accepted = sum(counts.drafted for counts in counted), sum(counts.accepted for counts in counted)
    rounds = sum(counts.rounds for counts in counted)
    judged = sum(counts.judged or 0 for counts in counted)
    return {
        "rounds": rounds,
        "drafted": drafted,
        "accepted": accepted,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
        "token_acceptance_rate": accepted / judged if judged else None,
        "mean_acceptance_length": 1 + accepted / rounds if rounds else None,
        "hidden_drafted": sum(counts.hidden_drafted for counts in counted),
        "hidden_accepted": sum(counts.hidden_accepted for counts in counted),
    }


def token_match(turns: Sequence[DraftingTurn]) -> float | None:
    """Share of places at which both answers have the same id, over the shorter of each two."""
    pairs = [
        (one.token_id, other.token_id)
        for turn in turns
        for one, other in zip(turn.plain.tokens, turn.drafted.tokens, strict=False)
    ]
    return sum(one == other for one, other in pairs) / len(pairs) if pairs else None


def _draft_ms(run: RunLog) -> float | None:
    """Per drafted token; None where none was."""
    visible = [entry for entry in run.rounds if not entry.hidden]
    drafted = sum(entry.drafted for entry in visible)
    return ms_from_ns(sum(entry.draft_ns for entry in visible)) / drafted if drafted else None


def _verify_ms(run: RunLog) -> float | None:
    """Per round, of stage decode what is neither drafting nor preparation; None where drafts were hidden elsewhere."""
    decode = stage_ms(run, "decode")
    if decode is None or not run.rounds or any(entry.hidden for entry in run.rounds):
        return None
    drafting = ms_from_ns(sum(entry.draft_ns for entry in run.rounds))
    return (decode - drafting - _preparation_ms(run)) / len(run.rounds)


def _preparation_ms(run: RunLog) -> float:
    spans = [span for span in run.spans.values() if span.name == PREPARING and span.duration_ns is not None]
    return ms_from_ns(sum(span.duration_ns or 0 for span in spans))
