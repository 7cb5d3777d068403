"""Whether speculation pays, in one plain sentence: for rounds, for drafts inside the prefill, for an adapted cache.

The number comes first, then how many runs of each kind it is from and which. Faster or slower is said only where the
95 % interval leaves 1 out. The terminal, the window and reports all say it in these words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evprof.core.run_log import RunLog
from evprof.core.units import count_text, ms_text, percent_text, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.metrics.configurations.baselines import baseline_of, is_counted
from evprof.metrics.estimates.estimates import ProcessSpread
from evprof.metrics.speculation import break_even
from evprof.metrics.speculation.clinic import AGREEMENT, definitions
from evprof.metrics.speculation.outcome import Acceptance, acceptance, distinct_answers
from evprof.metrics.speculation.parallel_prefill import ParallelPrefillFigures, window_of
from evprof.metrics.speculation.payoff import (
    DECODE,
    MeasuredSpeedup,
    Payoff,
    Prediction,
    payoff_of,
    prediction_over,
    step_ms_of,
)

_ALONE = "Run the target alone on this sample with the same settings, then this line says whether speculation pays."


_OPTION = f" (--repeat {FEWEST})"
"""How to repeat a run on the command line. The window, which has buttons for it, takes it out."""

_LOSSY = "Lossy: the answer is not the target's own."


def speculation_sentence(run: RunLog, others: Iterable[RunLog], processes: ProcessSpread | None = None) -> str:
    """Does it pay here, by how much, in how many runs against which, and what would it take.

    `processes`: how much engine processes differ on the machine, for runs that share none.
    """
    listed = list(others)
    payoff = None if _unweighed(run) else payoff_of(run, listed, processes)
    return " ".join(filter(None, speculation_verdict(run, listed, payoff).sentences))


def without_option(sentence: str) -> str:
    """A sentence as the window says it: what to repeat, and not by which option."""
    return sentence.replace(_OPTION, "")


@dataclass(frozen=True)
class SpeculationVerdict:
    """A verdict in two parts: the number and what it means, then what it rests on ("" where nothing is left to say).

    `sentences` are both as they are said in one go. `lacks_plain`, `lacks_own`: more runs of the target alone, or of
    this very configuration, would tell more.
    """

    head: str
    why: str = ""
    sentences: tuple[str, str] = ("", "")
    lacks_plain: bool = False
    lacks_own: bool = False


def speculation_verdict(run: RunLog, others: Sequence[RunLog], payoff: Payoff | None) -> SpeculationVerdict:
    """The verdict on a run, whose `payoff` against the others is worked out already (None: there is none)."""
    if unweighed := _unweighed(run):
        return _said(unweighed)
    if mode_of(run.info.mode).maps_cache:
        said, more = _adapted_sentences(run, others, payoff)
        if payoff is None or payoff.whole is None:
            return replace(_said(said, more), lacks_plain=True)
        return SpeculationVerdict(f"{_payoff_head(payoff)} {_LOSSY}", f"{_payoff_rest(payoff)} {more}", (said, more))
    if payoff is None or payoff.whole is None:
        return replace(_said(_without_baseline(run)), lacks_plain=True)
    found = payoff.whole
    is_own = payoff.runs != (run,)
    lacks_plain, lacks_own = found.plain_runs < FEWEST, found.runs < FEWEST
    if not is_counted(run.info):
        if is_own:
            found_words = _said(f"{_cold_words(run)}; of its repeats: {payoff_sentence(payoff)}")
        else:
            found_words = SpeculationVerdict(_cold(run), sentences=(_cold(run, _OPTION), ""))
        return replace(found_words, lacks_plain=lacks_plain, lacks_own=lacks_own)
    more = detail(payoff, window_of(run, others))
    head, rest = _payoff_head(payoff), _payoff_rest(payoff)
    return SpeculationVerdict(head, f"{rest} {more}".rstrip(), (payoff_sentence(payoff), more), lacks_plain, lacks_own)


def _said(head: str, why: str = "") -> SpeculationVerdict:
    return SpeculationVerdict(head, why, (head, why))


def _unweighed(run: RunLog) -> str:
    """Why a run cannot be weighed; "" where it can."""
    found = acceptance(run)
    if mode_of(run.info.mode).maps_cache:
        return ""
    if found is None:
        return "This run does not speculate."
    if not run.rounds and run.info.imported is not None:
        return "The file of this run does not tell its rounds, so speculation cannot be weighed by them."
    if not run.info.is_over:
        return "Speculation is weighed when the run has ended."
    if not found.rounds and not mode_of(run.info.mode).is_parallel:
        return "No round was verified, so speculation cannot be judged."
    return ""


def _cold_words(run: RunLog) -> str:
    if run.info.warmup:
        return "A warm-up run is in no figure"
    return "A cold run is in no figure" if run.info.is_cold else "This run is in no figure"


def _cold(run: RunLog, how: str = "") -> str:
    return f"{_cold_words(run)}; repeat it{how} to weigh speculation."


def _without_baseline(run: RunLog) -> str:
    found = acceptance(run)
    if mode_of(run.info.mode).is_parallel and found is not None and found.hidden_drafted:
        return f"{found.hidden_accepted:,} of {found.hidden_drafted:,} hidden tokens were accepted. {_ALONE}"
    return _ALONE


def _payoff_head(payoff: Payoff) -> str:
    """`0.77× [0.75, 0.79]: speculation costs 45 ms an answer.`, without the runs it is from."""
    found = payoff.whole
    if found is None:
        return _ALONE
    speed = f"{times_text(found.speedup)}{interval_text(found)}"
    if found.interval is None:
        is_few = min(found.runs, found.plain_runs) < FEWEST
        return f"{speed}, {'too few runs to call it' if is_few else 'not called'} faster or slower."
    return f"{speed}: {_meaning(payoff, found)}."


def _payoff_rest(payoff: Payoff) -> str:
    """`15 runs against 15 plain ones, runs 1, 2, … 29.`, and what has to be known of the interval."""
    found = payoff.whole
    if found is None:
        return ""
    against = f"{count_text(found.runs, 'run')} against {_plain(payoff, found)}"
    note = _without_interval(found) if found.interval is None else found.note
    return f"{against}; {note}." if note else f"{against}."


def _meaning(payoff: Payoff, found: MeasuredSpeedup) -> str:
    what = "decoding" if found.basis == DECODE else "the whole answer"
    if not found.is_clear:
        return f"{what} is neither faster nor slower for sure"
    saved, is_faster = payoff.saved_ms, found.speedup > 1
    if saved is None:
        return f"{what} is {'faster' if is_faster else 'slower'}"
    return f"speculation {'saves' if is_faster else 'costs'} {ms_text(abs(saved.value))} an answer"


def payoff_sentence(payoff: Payoff) -> str:
    """`0.77× [0.75, 0.79]: speculation costs 45 ms an answer (15 runs against 15 plain ones, runs 1, 2, … 29).`"""
    found = payoff.whole
    if found is None:
        return _ALONE
    against = f"{count_text(found.runs, 'run')} against {_plain(payoff, found)}"
    speed = f"{times_text(found.speedup)}{interval_text(found)}"
    if found.interval is None:
        return f"{speed} in {against}; {_without_interval(found, _OPTION)}."
    is_told = found.is_clear and payoff.saved_ms is not None
    note = f"; {found.note}" if found.note and is_told else ""
    return f"{speed}: {_meaning(payoff, found)} ({against}){note}."


def _without_interval(found: MeasuredSpeedup, how: str = "") -> str:
    if min(found.runs, found.plain_runs) < FEWEST:
        return f"too few to call it faster or slower; three of each are needed{how}"
    return found.note or "these runs give no interval"


def _plain(payoff: Payoff, found: MeasuredSpeedup) -> str:
    names = payoff.baseline.words
    if found.plain_runs == len(payoff.baseline.runs) == 1:
        return f"plain {names}"
    return f"{found.plain_runs} plain ones, {names.split(' (')[0]}"


def interval_text(found: MeasuredSpeedup) -> str:
    """` [0.75, 0.79]`; "" without one."""
    return "" if found.interval is None else f" [{found.interval[0]:.2f}, {found.interval[1]:.2f}]"


def detail(payoff: Payoff, window: ParallelPrefillFigures | None = None) -> str:
    """What was accepted, and the acceptance it takes; of drafts inside the prefill, what of them was accepted."""
    if window is not None:
        return _window_detail(payoff, window)
    step = step_ms_of(payoff.baseline)
    prediction = None if step is None else prediction_over(payoff.runs, step, payoff.measured)
    found = _acceptance_over(payoff.runs)
    if prediction is None or found is None or not found.drafted:
        return ""
    accepted = f"{percent_text(found.accepted / found.drafted)} of {found.drafted:,} drafted tokens were accepted"
    needed = break_even_words(payoff, prediction)
    return f"{accepted}; {needed}." if needed else f"{accepted}."


def _acceptance_over(runs: Sequence[RunLog]) -> Acceptance | None:
    found = [entry for run in distinct_answers(runs) if (entry := acceptance(run)) is not None]
    return sum(found[1:], found[0]) if found else None


def break_even_words(payoff: Payoff, found: Prediction) -> str:
    """The acceptance above which speculation pays by the formula; "" where the formula and the measurement disagree
    about this very acceptance, or the runs do not tell whether it paid."""
    if not payoff.is_clear or payoff.whole is None:
        return ""
    predicted = break_even.answer_speedup(found.costs, found.gamma, found.by_place, found.tokens, found.preparation_ms)
    if found.tokens < 2 or (predicted > 1) != (payoff.whole.speedup > 1):
        return ""
    is_tree = any(run.info.speculation is not None and run.info.speculation.tree for run in payoff.runs)
    # Of a tree most nodes are in vain: what counts is the chance of a level.
    rate = found.break_even_alpha if is_tree else found.break_even_rate
    if rate is None:
        return _never(found)
    if rate == 0:
        return "it pays at any acceptance"
    of_what = "of each level" if is_tree else "of the drafted tokens"
    return f"it pays above {percent_text(rate)} {of_what}"


def _never(found: Prediction) -> str:
    gamma, steps = found.mean_gamma, found.costs.round_ms(found.gamma) / found.costs.step_ms
    if gamma and steps >= gamma + 1:
        return f"no acceptance pays: a round takes {steps:.1f} plain steps and gives at most {gamma + 1:.1f} tokens"
    return "no acceptance makes it pay at this length"


def _window_detail(payoff: Payoff, window: ParallelPrefillFigures) -> str:
    if not window.drafted:
        return "Nothing was drafted inside the target's prefill."
    said = f"{window.accepted:,} of {window.drafted:,} hidden tokens were accepted"
    if window.stage_contention_ms is not None:
        more = "longer" if window.stage_contention_ms >= 0 else "less"
        said += f"; beside the draft the prefill took {ms_text(abs(window.stage_contention_ms))} {more}"
    return f"{said}{_window_break_even(payoff, window)}."


def _window_break_even(payoff: Payoff, window: ParallelPrefillFigures) -> str:
    is_faster = payoff.whole is not None and payoff.whole.speedup > 1
    if not payoff.is_clear or window.predicted_gain_ms is None or (window.predicted_gain_ms > 0) != is_faster:
        return ""
    if window.break_even_alpha is None:
        return "; no acceptance makes it pay"
    if window.break_even_alpha == 0:
        return "; it pays at any acceptance"
    return f"; it pays above a chance of {percent_text(window.break_even_alpha)} per token"


def _adapted_sentences(run: RunLog, others: Sequence[RunLog], payoff: Payoff | None) -> tuple[str, str]:
    said = "Lossy: the target's cache was made from the draft's, so the answer is not the target's own"
    baseline = baseline_of(run, others)
    if baseline is None:
        return f"{said}.", "Run the target alone on this sample as well, then this line says how far both agree."
    plain = baseline.runs[-1]
    agreed = next((entry for entry in definitions(run, plain) if entry.name == AGREEMENT), None)
    if agreed is not None and agreed.value is not None:
        counted = f"{agreed.numerator:,.0f} of {agreed.denominator:,.0f} tokens"
        said += f"; {counted} ({percent_text(agreed.value)}) are the plain target's"
        if len(run.tokens) != len(plain.tokens):
            said += f", which says {len(plain.tokens)} where this one says {len(run.tokens)}"
    return (f"{said}.", "") if payoff is None else (payoff_sentence(payoff), f"{said}.")
