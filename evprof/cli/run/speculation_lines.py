"""The acceptance clinic in a terminal: definitions, places, failures, break-even, and every round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns, ms_text, percent_text, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import repeats_of
from evprof.metrics.figures import stages
from evprof.metrics.speculation.clinic import (
    SHARE,
    Definition,
    definitions,
    per_position,
    plain_answer,
    round_histogram,
)
from evprof.metrics.speculation.failure_modes import Rejection, counts, first_rejections
from evprof.metrics.speculation.payoff import Prediction, prediction_of
from evprof.metrics.speculation.verdicts import interval_text, speculation_sentence
from evprof.metrics.speculation.widths import measured_widths, width_sentence

_EXAMPLES = 3


def clinic_lines(run: RunLog, known: Sequence[RunLog]) -> list[str]:
    """What there is to say of a run that speculates; the last of several repeats tells it for all."""
    if not mode_of(run.info.mode).is_paired:
        return []
    if run.run_id != repeats_of(run, known)[-1].run_id:
        return []
    rows = [entry for entry in definitions(run, plain_answer(run, known)) if entry.value is not None]
    return [
        *_definition_lines(rows),
        *_place_lines(run),
        *_failure_lines(first_rejections(run)),
        *_prediction_lines(run, prediction_of(run, known), known),
        speculation_sentence(run, known),
    ]


def _definition_lines(rows: Sequence[Definition]) -> Iterator[str]:
    if not rows:
        return
    yield "acceptance, by definition (different counts: not to be compared with each other)"
    for entry in rows:
        value = percent_text(entry.value, 1) if entry.unit == SHARE else f"{entry.value:.2f}"
        both = f"{_count(entry.numerator)} / {_count(entry.denominator)}"
        yield f"  {entry.name:<38}{value:>7}{both:>14}  {entry.formula}"


def _count(value: float | None) -> str:
    return "n/a" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:.2f}"


def _place_lines(run: RunLog) -> Iterator[str]:
    places = [entry for entry in per_position(run) if entry.judged]
    if not places:
        return
    shown = " · ".join(percent_text(entry.conditional) for entry in places[:12])
    yield f"{'accepted by place':<22}{shown}{' · …' * (len(places) > 12)}  (of those that were judged there)"
    rounds = " · ".join(f"{accepted}: {count}" for accepted, count in round_histogram(run).items() if count)
    yield f"{'rounds by accepted':<22}{rounds}"


def _failure_lines(rejections: Sequence[Rejection]) -> Iterator[str]:
    if not rejections:
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts(rejections).items())
    yield f"{'first rejections':<22}{kinds}"
    for entry in rejections[:_EXAMPLES]:
        yield f"  round {entry.round_index + 1}, token {entry.position + 1}: {rejection_text(entry)}"


def rejection_text(entry: Rejection) -> str:
    """`draft " left" (100 %, to the target 0.0 %), target " video" (100 %): content`."""
    own, cross, target = map(_chance, (entry.draft_chance, entry.cross_chance, entry.target_chance))
    of_draft = ", ".join(part for part in (own, cross and f"to the target {cross}") if part)
    return (
        f"draft {_piece(entry.draft_piece)}{f' ({of_draft})' if of_draft else ''}, "
        f"target {_piece(entry.target_piece)}{f' ({target})' if target else ''}: {entry.kind}"
    )


def _piece(piece: str) -> str:
    return f'"{piece}"' if piece else "the end"


def _chance(chance: float | None) -> str:
    return "" if chance is None else percent_text(chance, 1)


def _prediction_lines(run: RunLog, found: Prediction | None, known: Sequence[RunLog]) -> Iterator[str]:
    if found is None:
        return
    cost = "" if found.c is None else f"c {found.c:.2f} a drafted token, "
    step = ms_text(found.costs.step_ms)
    yield f"{'costs in plain steps':<22}{cost}v {found.v:.2f} the rest of a round (a step {step})"
    formula = f"by the formula, from these runs, {times_text(found.predicted_decode)}"
    line = f"{'decoding speed':<22}measured {_measured(found)}; {formula}"
    if run.info.speculation is None or not run.info.speculation.tree:
        yield f"{line} at {found.mean_gamma:.1f} drafted a round"
        yield f"{'best width':<22}{width_sentence(measured_widths(run, known))}"
    else:
        yield line


def _measured(found: Prediction) -> str:
    measured = found.of("decode")
    return "n/a" if measured is None else f"{times_text(measured.speedup)}{interval_text(measured)}"


def round_lines(run: RunLog) -> list[str]:
    """A line for each round: times, counts and its first rejection."""
    if not run.rounds:
        return []
    rejections = {entry.round_index: entry for entry in first_rejections(run)}
    lines = ["round     start     draft    verify  rollback  accepted  first rejection"]
    for entry in run.rounds:
        times = [ms_text(ms_from_ns(spent)) for spent in (entry.draft_ns, entry.verify_ns, entry.rollback_ns)]
        start = ms_text(stages.start_ms(run, entry.start_ns))
        failed = rejections.get(entry.round_index)
        said = rejection_text(failed) if failed else ""
        hidden = "hidden in the prefill" if entry.hidden else ""
        lines.append(
            f"{entry.round_index + 1:>5}{start:>10}{times[0]:>10}{times[1]:>10}{times[2]:>10}"
            f"{f'{entry.accepted} of {entry.drafted}':>10}  {'; '.join(filter(None, (hidden, said)))}".rstrip()
        )
    return lines
