"""Whether speculation pays, in words, and the block `speculation` of a run's JSON.

The number comes first, then the runs behind it. Faster or slower is said only where the verdict is clear. The terminal,
the window and reports use these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from evprof.core.records import DRAFT, RoundRecord
from evprof.core.run_info import SpeculationFacts
from evprof.core.run_log import RunLog
from evprof.core.units import count_text, ms_from_ns, ms_text, percent_text, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import baseline_of, is_counted, runs_text
from evprof.metrics.estimates.estimates import Verdict
from evprof.metrics.figures import stages
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.break_even import FEWEST_ROUNDS, widths_of
from evprof.metrics.speculation.clinic import AGREEMENT, definitions, per_position, plain_answer, round_histogram
from evprof.metrics.speculation.failure_modes import counts as kinds_of
from evprof.metrics.speculation.failure_modes import first_rejections
from evprof.metrics.speculation.outcome import (
    Acceptance,
    acceptance,
    acceptance_of_all,
    ceiling_json,
    distinct_answers,
    draft_depth,
    is_tree,
)
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import (
    DECODE,
    Payoff,
    Prediction,
    payoff_of,
    prediction_for,
    prediction_of,
)
from evprof.metrics.speculation.widths import Width, fastest, measured_widths

_NO_BASELINE = (
    "No run of the target alone on this sample and settings: `evprof run … --mode target,{}` measures both sides."
)


@dataclass(frozen=True)
class SpeculationVerdict:
    """A verdict in two parts: the number and its meaning, then what it is based on ("" without more to say).

    `lacks_turns`: both sides have to be measured in turns before speculation may be called faster or slower.
    """

    head: str
    why: str = ""
    lacks_turns: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.head} {self.why}".rstrip()


def speculation_sentence(run: RunLog, others: Iterable[RunLog]) -> str:
    """Whether speculation pays, by how much, in how many runs against which, and what acceptance it takes."""
    listed = list(others)
    payoff = None if _unweighed(run) else payoff_of(run, listed)
    return speculation_verdict(run, listed, payoff).sentence


def speculation_verdict(run: RunLog, others: Sequence[RunLog], payoff: Payoff | None) -> SpeculationVerdict:
    """The verdict on a run, whose `payoff` against the others is known already (None: there is none)."""
    if unweighed := _unweighed(run):
        return SpeculationVerdict(unweighed)
    if not is_counted(run.info):
        return SpeculationVerdict(f"This run is {' and '.join(run.info.marks) or run.info.status}: it is in no figure.")
    found = payoff.whole if payoff else None
    is_adapted = mode_of(run.info.mode).maps_cache
    if payoff is None or found is None:
        alone = _NO_BASELINE.format(run.info.mode)
        parts = (_agreement(run, others), alone) if is_adapted else (alone, hidden_counts([run]))
        return SpeculationVerdict(*parts, lacks_turns=True)
    more = _agreement(run, others) if is_adapted else detail(payoff, window_of(run, others))
    why = f"{_runs(found)} {more}".rstrip()
    return SpeculationVerdict(_head(payoff, found), why, lacks_turns=found.interval is None)


def _unweighed(run: RunLog) -> str:
    """Why a run cannot be weighed; "" where it can."""
    found = acceptance(run)
    if mode_of(run.info.mode).maps_cache:
        return ""
    if found is None:
        return "This run does not speculate."
    if not run.rounds and run.info.imported is not None:
        return "The file of this run does not give its rounds, so speculation cannot be weighed by them."
    if not run.info.is_over:
        return "Speculation is weighed when the run has ended."
    if not found.rounds and not mode_of(run.info.mode).is_parallel:
        return "No round was verified, so speculation cannot be judged."
    return ""


def hidden_counts(runs: Sequence[RunLog]) -> str:
    """How many drafts inside the prefill were accepted, over different answers."""
    distinct = distinct_answers(runs)
    found = acceptance_of_all(distinct)
    if not all(mode_of(run.info.mode).is_parallel for run in distinct):
        return ""
    if not found.hidden_drafted:
        return "Nothing was drafted inside the target's prefill."
    answers = f"In {len(distinct):,} different answers, " if len(distinct) > 1 else ""
    share = percent_text(found.hidden_accepted / found.hidden_drafted)
    return f"{answers}{found.hidden_accepted:,} of {found.hidden_drafted:,} hidden tokens were accepted ({share})."


def payoff_sentence(payoff: Payoff) -> str:
    """`0.77× [0.75, 0.79]: speculation costs 45 ms an answer. 15 runs against baseline runs 1, 2, … 29.`"""
    found = payoff.whole
    return f"{_head(payoff, found)} {_runs(found)}" if found else _NO_BASELINE.format(payoff.runs[0].info.mode)


def _head(payoff: Payoff, found: Verdict) -> str:
    ends = "" if found.interval is None else f" [{found.interval[0]:.2f}, {found.interval[1]:.2f}]"
    speed = f"{times_text(found.ratio or 0.0)}{ends}"
    if found.interval is None:
        return f"{speed}, {found.reason.rstrip('.')}."
    if not payoff.is_explained and payoff.most_saved_ms is not None:
        accepted = acceptance_of_all(distinct_answers(payoff.runs)).accepted
        save = "saves" if accepted == 1 else "save"
        most = f"{count_text(accepted, 'accepted token')} {save} {ms_text(payoff.most_saved_ms)} an answer at most"
        return f"{speed}, but {most}: something else changed."
    if not payoff.is_clear:
        return f"{speed}: faster or slower is not clear."
    if payoff.saved is None:
        what = "decoding" if payoff.basis == DECODE else "the whole answer"
        return f"{speed}: {what} is {'faster' if payoff.is_faster else 'slower'}."
    does = "saves" if payoff.is_faster else "costs"
    return f"{speed}: speculation {does} {ms_text(abs(payoff.saved.delta))} an answer."


def _runs(found: Verdict) -> str:
    """`15 runs against baseline runs 1, 2, … 29.`, and what limits the interval."""
    note = f"; {found.reason.rstrip('.')}" if found.reason and found.interval is not None else ""
    return f"{count_text(len(found.runs[0]), 'run')} against baseline {runs_text(found.runs[1])}{note}."


def detail(payoff: Payoff, window: ParallelPrefillFigures | None = None) -> str:
    """What was accepted, and the acceptance it takes; of drafts inside the prefill, what of them was accepted."""
    if window is not None:
        return " ".join(filter(None, (hidden_counts(payoff.runs), _window_detail(payoff, window))))
    counts = acceptance_of_all(distinct_answers(payoff.runs))
    if counts.draft_acceptance_rate is None:
        return ""
    prediction = prediction_for(payoff)
    return f"{_accepted_words(payoff, counts)}. {costs_sentence(payoff.runs, prediction)}{_pays(payoff, prediction)}"


def _accepted_words(payoff: Payoff, counts: Acceptance) -> str:
    """`50 % of 12 drafted tokens were accepted`; of trees, most of whose nodes are in vain, the tokens of a round."""
    if not is_tree(payoff.runs):
        return f"{percent_text(counts.draft_acceptance_rate or 0.0)} of {counts.drafted:,} drafted tokens were accepted"
    rounds = [(run, entry) for run in payoff.runs for entry in run.rounds]
    nodes, depth = max(entry.drafted for _, entry in rounds), max(draft_depth(run, entry) for run, entry in rounds)
    length = counts.mean_acceptance_length or 0.0
    return f"{length:.1f} tokens a round; of a tree of {nodes:,} at most {depth:,} can be accepted"


def costs_sentence(runs: Sequence[RunLog], found: Prediction | None) -> str:
    """What a drafted token and checking a round cost, by how many rounds; "" where no round was measured."""
    if found is None:
        widths = widths_of(runs)
        counted = ", ".join(f"{count:,} of {width}" for width, count in sorted(widths.items()))
        few = f"A prediction needs {FEWEST_ROUNDS} rounds that draft as many tokens; measured: {counted} tokens."
        return few if widths else ""
    drafting = "" if found.c is None else f"A drafted token costs {found.c:.2f} baseline steps, checking a round "
    costs = f"{drafting or 'A round costs '}{found.v:.2f} (a step is {ms_text(found.costs.step_ms)})"
    rounds = sum(found.costs.rounds.values())
    left_out = f"; {found.costs.left_out:,} of rarer widths are left out" if found.costs.left_out else ""
    return f"{costs}, over {rounds:,.0f} rounds{left_out}."


def _pays(payoff: Payoff, found: Prediction | None) -> str:
    """The acceptance above which speculation pays by the formula; "" where the formula and the measurement disagree
    about this acceptance, or the verdict is not clear."""
    if found is None or not payoff.is_clear or found.tokens < 2:
        return ""
    preparation = found.preparation_ms
    speed = break_even.answer_speedup(found.costs, found.gamma, found.by_place, found.tokens, preparation)
    if (speed > 1) != payoff.is_faster:
        return ""
    if is_tree(payoff.runs):
        return f" {pays_words(found.break_even_alpha, 'of each level')}."
    return f" {pays_words(found.break_even_rate, 'of the drafted tokens')}."


def pays_words(needed: float | None, what: str) -> str:
    """The acceptance above which speculation pays, in words."""
    if needed is None:
        return "It never pays here, even if every draft is right"
    return "It pays even if every draft is wrong" if needed == 0 else f"It pays above {percent_text(needed)} {what}"


def _window_detail(payoff: Payoff, window: ParallelPrefillFigures) -> str:
    """How much longer the stages before decoding took, only where their verdict is clear, and what acceptance pays."""
    if not window.drafted:
        return ""
    parts = []
    if window.overlap_ms and window.contention and window.contention.is_clear:
        parts.append(f"Beside the draft, the prefill took {_as_long(window.contention)} as in the baseline runs.")
    elif window.stage_contention and window.stage_contention.is_clear:
        stages_took = f"From preprocessing to the end of prefill it took {_as_long(window.stage_contention)}"
        parts.append(f"{stages_took} as in the baseline runs. Load on the machine may be part of it.")
    gain = window.predicted_gain_ms
    if payoff.is_clear and gain is not None and (gain > 0) == payoff.is_faster:
        parts.append(f"{pays_words(window.break_even_alpha, 'acceptance of each token')}.")
    return " ".join(parts)


def _as_long(contention: Verdict) -> str:
    """`2.12× [1.98, 2.27] as long (983 ms more)`."""
    low, high = contention.interval or (1.0, 1.0)
    more = "more" if contention.delta >= 0 else "less"
    speed = f"{times_text(contention.ratio or 1.0)} [{low:.2f}, {high:.2f}]"
    return f"{speed} as long ({ms_text(abs(contention.delta))} {more})"


def _agreement(run: RunLog, others: Sequence[RunLog]) -> str:
    """How far the lossy answer of an adapted cache agrees with the plain one."""
    text = "Lossy: the target's cache was made from the draft's, so the answer is not the target's own"
    baseline = baseline_of(run, others)
    if baseline is None:
        return f"{text}."
    plain = baseline.runs[-1]
    agreed = next((entry for entry in definitions(run, plain) if entry.name == AGREEMENT), None)
    if agreed is not None and agreed.value is not None:
        counted = f"{agreed.numerator:,.0f} of {agreed.denominator:,.0f} tokens"
        text += f"; {counted} ({percent_text(agreed.value)}) are the plain target's"
        if len(run.tokens) != len(plain.tokens):
            text += f"; this answer has {len(run.tokens)} tokens, that one {len(plain.tokens)}"
    return f"{text}."


_COUNTS = (
    *("rounds", "drafted", "accepted", "bonus", "emitted", "draft_acceptance_rate", "mean_acceptance_length"),
    *("hidden_drafted", "hidden_accepted"),
)
_FACTS = [entry.name for entry in fields(SpeculationFacts) if not entry.name.startswith(("drafter", "transfer"))]


def speculation_document(run: RunLog, others: Sequence[RunLog] = ()) -> dict[str, Any] | None:
    """The block of a run, weighed against the plain runs among `others`; None for a run in which nothing drafted."""
    counts, facts = acceptance(run), run.info.speculation
    if counts is None and facts is None:
        return None
    if run.info.imported is not None:
        others = ()  # a file's own figures stand beside it; its rows are compared elsewhere
    rejections, summed = first_rejections(run), acceptance_of_all([run])
    window, found = window_of(run, others), prediction_of(run, others)
    top = fastest(measured_widths(run, others))
    return {
        "drafter": _drafter(run, facts),
        **{name: getattr(facts, name) if facts else None for name in _FACTS},
        **{name: getattr(summed, name) for name in _COUNTS},
        "accepted_per_position": list(summed.per_position),
        "per_round": [_round(run, entry) for entry in run.rounds],
        "definitions": [entry.to_json() for entry in definitions(run, plain_answer(run, others))],
        "per_position": [entry.to_json() for entry in per_position(run)],
        "histogram": {str(accepted): count for accepted, count in round_histogram(run).items()},
        "failures": {"counts": kinds_of(rejections), "list": list(map(asdict, rejections))},
        "window": None if window is None else window.to_json(),
        "prediction": None if found is None else _prediction(found, top),
        "sentence": speculation_sentence(run, others),
    }


def _drafter(run: RunLog, facts: SpeculationFacts | None) -> str | None:
    model = run.info.models.get(DRAFT)
    return facts.drafter if facts else model.name if model else None


def _round(run: RunLog, entry: RoundRecord) -> dict[str, Any]:
    return {
        "start_ms": stages.start_ms(run, entry.start_ns),
        "draft_ms": ms_from_ns(entry.draft_ns),
        "verify_ms": ms_from_ns(entry.verify_ns),
        "rollback_ms": ms_from_ns(entry.rollback_ns),
        "drafted": entry.drafted,
        "accepted": entry.accepted,
        "emitted": entry.emitted,
        "drafted_ids": [int(part) for part in entry.drafted_ids.split(",") if part],
        "hidden": bool(entry.hidden),
    }


def _prediction(found: Prediction, top: Width | None) -> dict[str, Any]:
    chance = found.by_place if found.alpha is None else found.alpha
    names = ("tokens", "tau", "c", "v", "alpha", "predicted", "predicted_alpha")
    ends = ("preparation_ms", "break_even_alpha", "break_even_rate")
    return {
        "step_ms": found.costs.step_ms,
        "once_ms": found.costs.once_ms,
        "prepare_ms": found.costs.prepare_ms,
        "rounds": sum(found.costs.rounds.values()),
        "rounds_left_out": found.costs.left_out,
        "gamma": found.mean_gamma,
        **{name: getattr(found, name) for name in (*names, *ends)},
        **ceiling_json(found.ceiling),
        "alpha_by_place": list(found.by_place),
        "best_gamma": None if top is None else top.gamma,
        "best_speedup": None if top is None else top.speed.ratio,
        "best_ci95": None if top is None or top.speed.interval is None else list(top.speed.interval),
        "best_rounds": None if top is None else top.rounds,
        "curve": [asdict(point) for point in break_even.curve(found.costs, chance, found.tokens)],
        "measured": {
            basis: {
                "speedup": speed.ratio,
                "ci95": list(speed.interval) if speed.interval else None,
                "runs": speed.counts[0],
                "plain_runs": speed.counts[1],
            }
            for basis, speed in found.measured.items()
        },
    }
