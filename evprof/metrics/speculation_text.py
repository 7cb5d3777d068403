"""Whether speculation pays, in one plain sentence: for rounds, for drafts inside the prefill, for an adapted cache.

Every reader says it the same way: the terminal, the window and reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from evprof.core.run_log import RunLog
from evprof.core.speculation import KV_ADAPTED, PARALLEL_PREFILL
from evprof.core.units import ms_text
from evprof.metrics.clinic import AGREEMENT, definitions
from evprof.metrics.parallel_prefill import Window, window_of
from evprof.metrics.payoff import DECODE, Measured, Prediction, measured_speedups, prediction_of
from evprof.metrics.speculation import Verdict, acceptance, plain_baseline, plain_step_ms, repeats_of, verdict
from evprof.metrics.stages import END_TO_END

_WORTH_SAYING = 0.1
"""Parts of a plain step from which getting a drafter ready is told apart."""

_ALONE = "Run the target alone on this sample as well, then this line says whether speculation pays."


def speculation_sentence(run: RunLog, others: Sequence[RunLog]) -> str:
    """One plain sentence: does it pay here, by how many ms, above which acceptance would it."""
    if run.info.mode == KV_ADAPTED:
        return _adapted_sentence(run, others)
    counts = acceptance(run)
    if counts is None:
        return "This run does not speculate."
    if unweighed := _unweighed(run, has_rounds=counts.rounds > 0):
        return unweighed
    window = window_of(run, others)
    if window is not None:
        return _window_sentence(window, measured_speedups(run, others))
    weighed, found = verdicts(run, others), prediction_of(run, others)
    if not weighed or found is None:
        return _ALONE
    return _rounds_sentence(weighed, found, is_tree=bool(run.info.speculation and run.info.speculation.tree))


def _unweighed(run: RunLog, *, has_rounds: bool) -> str:
    """Why a run that speculates cannot be weighed by itself; "" where it can."""
    if not has_rounds and run.info.imported is not None:
        return "The file of this run does not tell its rounds, so speculation cannot be weighed by them."
    if not run.info.is_over:
        return "Speculation is weighed when the run has ended."
    if not has_rounds and run.info.mode != PARALLEL_PREFILL:
        return "No round was verified, so speculation cannot be judged."
    return ""


def verdicts(run: RunLog, others: Sequence[RunLog]) -> list[Verdict]:
    """Every repeat of a run weighed against the plain target."""
    step = plain_step_ms(run, others)
    found = (verdict(entry, step) for entry in repeats_of(run, others) or [run])
    return [entry for entry in found if entry is not None]


def net_ms(run: RunLog, others: Sequence[RunLog]) -> float | None:
    """What speculation saved per answer in ms, below 0 what it cost; medians over repeats, None where not known."""
    if run.info.mode == PARALLEL_PREFILL:
        window = window_of(run, others)
        return None if window is None else window.net_gain_ms
    if run.info.mode == KV_ADAPTED:
        return None
    weighed = verdicts(run, others)
    return median(entry.net_ms for entry in weighed) if weighed else None


def _rounds_sentence(weighed: list[Verdict], found: Prediction, *, is_tree: bool) -> str:
    net, gain = median(entry.net_ms for entry in weighed), median(entry.decode_gain_ms for entry in weighed)
    rates = [entry.rate for entry in weighed if entry.rate is not None]
    accepted = f"{median(rates):.0%} of the drafted tokens were accepted" if rates else "nothing was drafted"
    head = f"Speculation {_saves(net)} per answer here ({accepted}): decoding {_less(gain)}"
    if found.costs.prepare_ms >= _WORTH_SAYING * found.costs.step_ms:
        head += f", getting the drafter ready ({ms_text(found.costs.prepare_ms)}) included"
    if found.preparation_ms > 0:
        head += f", preparing the draft {ms_text(found.preparation_ms)}"
    return f"{head}; {_break_even(found, is_paying=net > 0, is_tree=is_tree)}.{_speeds(found.measured)}"


def _break_even(found: Prediction, *, is_paying: bool, is_tree: bool) -> str:
    # Of a tree most nodes are in vain: what counts is the chance of a level.
    rate = found.break_even_alpha if is_tree else found.break_even_rate
    if rate is None:
        gamma = found.mean_gamma
        if gamma and found.costs.round_ms(found.gamma) >= (gamma + 1) * found.costs.step_ms:
            return (
                f"it cannot pay at any acceptance, however long the answer: a round takes as long as "
                f"{found.costs.round_ms(found.gamma) / found.costs.step_ms:.1f} plain steps and gives at most "
                f"{gamma + 1:.1f} tokens"
            )
        return "at this length it cannot pay at any acceptance"
    if rate == 0:
        return "it pays at any acceptance"
    of_what = "a chance of {rate:.0%} per level" if is_tree else "an acceptance of {rate:.0%}"
    return f"it {'pays' if is_paying else 'would pay'} above {of_what.format(rate=rate)}"


def _window_sentence(window: Window, measured: Sequence[Measured]) -> str:
    hidden = (
        f"{window.accepted} of {window.drafted} tokens drafted inside the target's prefill were accepted"
        if window.drafted
        else "nothing was drafted inside the target's prefill"
    )
    spans = []
    if window.prefill_ms is not None:
        spans.append(f"window {ms_text(window.prefill_ms)}")
    if window.with_load_ms is not None:
        spans.append(f"{ms_text(window.with_load_ms)} with its load")
    where = f" ({', '.join(spans)})" if spans else ""
    if window.net_gain_ms is None:
        return f"Parallel prefill: {hidden}{where}. {_ALONE}"
    said = f"Parallel prefill {_saves(window.net_gain_ms)} per answer here: {hidden}{where}"
    if window.stage_contention_ms is not None:
        longer = "longer" if window.stage_contention_ms >= 0 else "less"
        said += f"; beside the draft the target took {ms_text(abs(window.stage_contention_ms))} {longer} to prefill"
    if window.drafted:
        if window.break_even_alpha is None:
            said += "; at this cost it cannot pay at any acceptance"
        elif window.break_even_alpha == 0:
            said += "; it pays at any acceptance"
        else:
            said += f"; it pays above a chance of {window.break_even_alpha:.0%} per token"
        if window.ceiling is not None:
            said += (
                f"; however long the window, at this acceptance {window.ceiling:.1f} tokens would be accepted at most"
            )
    return f"{said}.{_speeds(measured)}"


def _adapted_sentence(run: RunLog, others: Sequence[RunLog]) -> str:
    said = "Lossy: the target's cache was made from the draft's, so the answer is not the target's own"
    baseline = plain_baseline(run, others)
    if baseline is None:
        return f"{said}. Run the target alone on this sample as well, then this line says how far both agree."
    agreed = next((entry for entry in definitions(run, baseline) if entry.name == AGREEMENT), None)
    if agreed is not None and agreed.value is not None:
        said += (
            f"; {agreed.numerator:.0f} of {agreed.denominator:.0f} tokens ({agreed.value:.0%}) are the plain target's"
        )
        if len(run.tokens) != len(baseline.tokens):
            said += f", which says {len(baseline.tokens)} where this one says {len(run.tokens)}"
    return f"{said}.{_speeds(measured_speedups(run, others))}"


def _speeds(measured: Sequence[Measured]) -> str:
    """` Decoding is 1.62 times as fast [1.58, 1.66], the whole answer 1.20 times [1.18, 1.23] (5 and 5 runs).`"""
    by_basis = {entry.basis: entry for entry in measured}
    decode, whole = by_basis.get(DECODE), by_basis.get(END_TO_END)
    parts = []
    if decode is not None:
        parts.append(f"decoding is {_times(decode)} as fast{_interval(decode)}")
    if whole is not None:
        parts.append(f"the whole answer {_times(whole)}{_interval(whole)}")
    if not parts:
        return ""
    counted = (whole or decode or measured[0]).runs, (whole or decode or measured[0]).plain_runs
    text = ", ".join(parts)
    unclear = whole is not None and whole.interval is not None and whole.interval[0] <= 1 <= whole.interval[1]
    tail = ": these runs do not tell the whole answer's from no difference" if unclear else ""
    return f" Measured, {text} ({counted[0]} and {counted[1]} runs){tail}."


def _times(entry: Measured) -> str:
    return f"{entry.speedup:.2f} times"


def _interval(entry: Measured) -> str:
    return "" if entry.interval is None else f" [{entry.interval[0]:.2f}, {entry.interval[1]:.2f}]"


def _saves(net: float) -> str:
    return f"saves {ms_text(net)}" if net > 0 else f"costs {ms_text(-net)}"


def _less(gain: float) -> str:
    return f"{ms_text(abs(gain))} {'less' if gain >= 0 else 'more'}"
