"""What the acceptance clinic shows of a run that speculates, its repeats taken together; it knows no widget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.metrics.speculation.failure_modes import KINDS
from ui.run_facts.figures import NOTHING
from ui.run_facts.run_text import judgement_of, run_title

if TYPE_CHECKING:
    from evprof.metrics.speculation.clinic import Definition, PlaceAcceptance
    from evprof.metrics.speculation.failure_modes import Rejection
    from evprof.metrics.speculation.payoff import Prediction

KIND_WORDS = dict(zip(KINDS, ("shifted", "surface variant", "content"), strict=True))
"""Kinds of rejections as people read them."""

KIND_TIPS = dict(
    zip(
        KINDS,
        (
            "The draft says the same a few words earlier or later.",
            "The same word but for case, spaces, punctuation or ending.",
            "Another word: the draft sees something else.",
        ),
        strict=True,
    )
)
"""What a kind means, in a sentence."""


@dataclass(frozen=True)
class Clinic:
    """Figures of a run; those over rounds are of all its repeats, equal answers counted once. The list of rejections is
    the run's alone. `judgement` is how `sentence` is meant. `against` names the plain runs that it is weighed against,
    "" without any."""

    run: RunLog
    runs: tuple[RunLog, ...]
    definitions: tuple[Definition, ...]
    positions: tuple[PlaceAcceptance, ...]
    histogram: dict[int, int]
    rejections: tuple[Rejection, ...]
    prediction: Prediction | None
    sentence: str
    judgement: str
    best: str = ""
    against: str = ""

    @property
    def title(self) -> str:
        """Which run, and over how many repeats."""
        from evprof.metrics.configurations.settings_text import run_label

        more = f"{len(self.runs)} repeats taken together" if len(self.runs) > 1 else ""
        return " · ".join(filter(None, (run_title(self.run), run_label([self.run]), more)))


def key_of(run: RunLog | None, others: Sequence[RunLog]) -> object:
    """Changes when anything does that figures of a run follow from."""
    return None if run is None else (id(run), run.version, len(others), sum(other.info.is_over for other in others))


def clinic_of(run: RunLog, others: Sequence[RunLog]) -> Clinic:
    """Everything of a run, with the other runs of its session to weigh it against."""
    from evprof.metrics.configurations.baselines import baseline_of, repeats_of
    from evprof.metrics.speculation.clinic import definitions_over, per_position, plain_answer, round_histogram
    from evprof.metrics.speculation.failure_modes import first_rejections
    from evprof.metrics.speculation.outcome import distinct_answers
    from evprof.metrics.speculation.payoff import payoff_of, prediction_of
    from evprof.metrics.speculation.verdicts import speculation_sentence
    from evprof.metrics.speculation.widths import measured_widths, width_sentence

    runs = repeats_of(run, others)
    if run not in runs:
        runs = [run]
    distinct = distinct_answers(runs)
    pairs = [(entry, plain_answer(entry, others)) for entry in distinct]
    return Clinic(
        run,
        tuple(runs),
        tuple(definitions_over(pairs)),
        tuple(per_position(*distinct)),
        round_histogram(*distinct),
        tuple(first_rejections(run)),
        prediction_of(run, others),
        speculation_sentence(run, others),
        judgement_of(run, payoff_of(run, others)),
        width_sentence(measured_widths(run, others)),
        "" if (baseline := baseline_of(run, others)) is None else baseline.words,
    )


def value_text(definition: Definition) -> str:
    """`21.4 %` of a share, `1.43` tokens; a dash where nothing was counted."""
    from evprof.metrics.speculation.clinic import SHARE

    value = definition.value
    if value is None:
        return NOTHING
    return percent_text(value, 1) if definition.unit == SHARE else f"{value:.2f}"


def counts_text(definition: Definition) -> str:
    """`12 / 57`; a dash where nothing was counted."""
    if definition.numerator is None or not definition.denominator:
        return NOTHING
    return f"{_count(definition.numerator)} / {_count(definition.denominator)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
