"""Claims about speculation and other switches: what each brings (documents 001, 002, 004)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_log import RunLog
from evprof.core.speculation import KV_ADAPTED, MODEL, PAIRED_MODES, PARALLEL_PREFILL, SPECULATIVE, SPECULATIVE_MODES
from evprof.metrics.claims.evidence import (
    NOT_MEASURED,
    Evidence,
    Finding,
    found,
    interval_words,
    is_told,
    nothing,
    within,
)
from evprof.metrics.configurations import Column
from evprof.metrics.decoding import decode_ms_per_token, input_length
from evprof.metrics.pace import pace_of
from evprof.metrics.paired import compare, mean_of
from evprof.metrics.speculation import acceptance
from evprof.metrics.stages import MODEL_ONLY, WITHOUT_LOAD, total_ms
from evprof.metrics.statistics import Interval
from evprof.metrics.what_if import ParallelPrefill, parallel_prefill

EQUIVALENT, TOLERANCE = 0.137, 0.005
ADAPTER_SPEEDUP, PARALLEL_SPEEDUP, ADAPTER_RATE = (2.7, math.inf), (1.9, math.inf), 0.8
SPECULATIVE_SPEEDUP, PRUNED_SHARE, QUANTIZED_SPEEDUP = (2.0, 3.0), (0.10, 0.20), (1.5, 2.0)
LENGTHS = (50, 100)
"""Output lengths at which 002 expects twice the speed."""


def length_ratio_as_acceptance(evidence: Evidence) -> Finding:
    """The ratio of two prompt lengths beside what was drafted and accepted."""
    ratio = next(
        (
            (one / two, draft, target)
            for draft, target in evidence.pairs
            if (one := mean_of(draft, input_length)) and (two := mean_of(target, input_length))
        ),
        None,
    )
    accepted, drafted = _counts(run for column in evidence.columns for run in column.runs)
    if ratio is None:
        return nothing("No pair says how long both prompts were.")
    share, draft, target = ratio
    sentence = f"The prompts' lengths have the ratio {share:.1%}"
    if drafted:
        rate = accepted / drafted
        sentence += f"; of {drafted:.0f} drafted tokens {accepted:.0f} were accepted, {rate:.1%}"
        return found(abs(rate - share) <= TOLERANCE, f"{sentence}: two different things.", draft, target)
    if abs(share - EQUIVALENT) <= TOLERANCE:
        sentence += "; that alone gives the 13.7 %, and not one token was drafted: it is no acceptance"
        return found(False, f"{sentence}.", draft, target)
    return nothing(f"{sentence}; no token was drafted.")


def _counts(runs: Iterator[RunLog]) -> tuple[float, float]:
    """Accepted and drafted tokens, counted here or told by a file."""
    accepted = drafted = 0.0
    for run in runs:
        counts = acceptance(run)
        told = run.info.imported.figures if run.info.imported else {}
        if counts is not None and counts.rounds:
            accepted, drafted = accepted + counts.accepted, drafted + counts.drafted
        elif "drafted_tokens" in told and "accepted_tokens" in told:
            accepted, drafted = accepted + told["accepted_tokens"], drafted + told["drafted_tokens"]
    return accepted, drafted


@dataclass(frozen=True)
class Speed:
    """Speculation against the target alone: how many times as fast the whole answer is, without loading."""

    ratio: float
    interval: Interval | None
    column: Column
    base: Column

    @property
    def sentence(self) -> str:
        """What was measured."""
        name, interval = self.column.cell or self.column.label, interval_words(self.interval)
        return f"The fastest ({name}) runs at {self.ratio:.2f} times the speed of the target alone{interval}."


def speeds(evidence: Evidence, *, is_adapter: bool) -> list[Speed]:
    """Configurations that draft, or answer, through something trained, or those that do not, against the target alone
    on the same samples. Imported ones draft through adapters."""
    plain = [column for column in evidence.plain() if column.runs[0].info.role == TARGET]
    rows = []
    for column in evidence.columns:
        run = column.runs[0]
        if run.info.mode not in PAIRED_MODES or _is_adapted(run) != is_adapter:
            continue
        model = run.info.models.get(TARGET)
        base = next((other for other in plain if other.runs[0].info.models.get(TARGET) == model), None)
        compared = None if base is None else compare(column, base, _whole_ms)
        if base is not None and compared is not None and compared.ratio is not None:
            rows.append(Speed(compared.ratio, compared.ratio_interval, column, base))
    return rows


def _is_adapted(run: RunLog) -> bool:
    """Whether something trained stands between draft and target. A file of the documents' own work has an adapter."""
    facts = run.info.speculation
    return run.info.imported is not None or run.info.mode == KV_ADAPTED or bool(facts and facts.adapter)


def _is_naive(run: RunLog) -> bool:
    """Whether the untouched draft model drafts in turns with the target."""
    facts = run.info.speculation
    return run.info.mode == SPECULATIVE and (facts is None or facts.kind == MODEL)


def _whole_ms(run: RunLog) -> float | None:
    """Everything after loading; of a file that did not time preprocessing, what its models took."""
    told = run.info.imported.figures.get("published_total_ms") if run.info.imported else None
    return told or total_ms(run, WITHOUT_LOAD) or total_ms(run, MODEL_ONLY)


def _best(rows: list[Speed]) -> Speed | None:
    return max(rows, key=lambda row: row.ratio, default=None)


def naive_is_slower(evidence: Evidence) -> Finding:
    """The fastest speculation without an adapter against the target alone."""
    naive = [row for row in speeds(evidence, is_adapter=False) if _is_naive(row.column.runs[0])]
    best = _best(naive)
    if best is None:
        return nothing("Speculation and the target alone were not run on the same samples.")
    if not is_told(best.interval, 1):
        return nothing(f"{best.sentence} That cannot be told from no difference.")
    return found(best.ratio < 1, best.sentence, best.column, best.base)


def adapter_speedup(evidence: Evidence) -> Finding:
    """The fastest answers through an adapted KV cache against the target alone; without any, through other adapters."""
    through = speeds(evidence, is_adapter=True)
    cached = [row for row in through if row.column.runs[0].info.mode == KV_ADAPTED]
    best = _best(cached or through)
    if best is None:
        return nothing("No speculation through an adapter is here.")
    sentence = f"{best.sentence} Its answers are not the target's own." if cached else best.sentence
    finding = within(best.ratio, best.interval, ADAPTER_SPEEDUP, sentence, best.column, best.base)
    if cached or finding.verdict == NOT_MEASURED:
        return finding
    kind = "on hidden states" if best.column.runs[0].info.imported is not None else "that draft"
    return replace(finding, judged_on=f"adapters {kind}, not on the KV cache")


def adapter_acceptance(evidence: Evidence) -> Finding:
    """Accepted of drafted tokens through adapters."""
    columns = [
        column
        for column in evidence.columns
        if column.runs[0].info.mode in SPECULATIVE_MODES and _is_adapted(column.runs[0])
    ]
    accepted, drafted = _counts(run for column in columns for run in column.runs)
    if not drafted:
        return nothing("No speculation through an adapter is here.")
    sentence = (
        f"Through adapters {accepted:.0f} of {drafted:.0f} drafted tokens were accepted, {accepted / drafted:.1%}."
    )
    return found(accepted / drafted >= ADAPTER_RATE, sentence, *columns)


def parallel_prefill_doubles(evidence: Evidence) -> Finding:
    """Hidden drafting as measured, or else the most that measured paces allow at 002's own acceptance."""
    measured = [
        row
        for row in speeds(evidence, is_adapter=False) + speeds(evidence, is_adapter=True)
        if row.column.runs[0].info.mode == PARALLEL_PREFILL
        or any(entry.hidden for run in row.column.runs for entry in run.rounds)
    ]
    best = _best(measured)
    if best is not None:
        return within(best.ratio, best.interval, PARALLEL_SPEEDUP, best.sentence, best.column, best.base)
    bounds = [
        (most, draft, target)
        for draft in evidence.plain()
        for target in evidence.plain()
        if (draft.runs[0].info.role, target.runs[0].info.role, draft.session) == (DRAFT, TARGET, target.session)
        if (most := _most(draft, target)) is not None
    ]
    if not bounds:
        return nothing("The paces of a draft and a target are not known.")
    most, draft, target = max(bounds, key=lambda bound: max(entry.speedup for entry in bound[0]))
    sentence = (
        f"Nothing was drafted inside a prefill, but the measured paces bound it: {most[0].free} tokens fit the window, "
        f"{most[0].accepted:.1f} of them are accepted at 80 %, so {LENGTHS[0]} and {LENGTHS[1]} tokens come at most "
        f"{most[0].speedup:.2f} and {most[1].speedup:.2f} times as fast."
    )
    if max(entry.speedup for entry in most) >= PARALLEL_SPEEDUP[0]:
        return nothing(f"{sentence} Whether that is reached was not measured.")
    return found(False, sentence, draft, target)


def _most(draft: Column, target: Column) -> list[ParallelPrefill] | None:
    """The most that drafting inside the prefill can give at 002's acceptance, by output length."""
    paces = pace_of(draft), pace_of(target)
    if paces[0] is None or paces[1] is None:
        return None
    return [parallel_prefill(paces[1], paces[0], tokens, ADAPTER_RATE) for tokens in LENGTHS]


def speculation_doubles(evidence: Evidence) -> Finding:
    """The fastest speculation of any kind against the target alone."""
    every = speeds(evidence, is_adapter=False) + speeds(evidence, is_adapter=True)
    best = _best([row for row in every if row.column.runs[0].info.mode in SPECULATIVE_MODES])
    if best is None:
        return nothing("Speculation and the target alone were not run on the same samples.")
    return within(best.ratio, best.interval, SPECULATIVE_SPEEDUP, best.sentence, best.column, best.base)


def pruning_saves(evidence: Evidence) -> Finding:
    """A configuration with fewer visual tokens against the same with all."""
    for one, other in evidence.twins("visual_keep"):
        kept = [column.runs[0].info.settings.get("switches", {}).get("visual_keep", 1.0) for column in (one, other)]
        if 1.0 not in kept:
            continue
        whole, pruned = (one, other) if kept[0] == 1.0 else (other, one)
        compared = compare(whole, pruned, _whole_ms)
        if compared is None or compared.ratio is None:
            continue
        sentence = (
            f"Keeping {min(kept):.0%} of the visual tokens takes {compared.ratio:.2f} times the "
            f"time{interval_words(compared.ratio_interval)}."
        )
        wanted = (1 - PRUNED_SHARE[1], 1 - PRUNED_SHARE[0])
        return within(compared.ratio, compared.ratio_interval, wanted, sentence, whole, pruned)
    return nothing("No configuration was run with and without pruning.")


def quantization_speeds_up(evidence: Evidence) -> Finding:
    """A configuration with packed weights against the same without: time per token."""
    for one, other in evidence.twins("quantization"):
        kinds = [column.runs[0].info.models[column.runs[0].info.role].quantization for column in (one, other)]
        if None not in kinds:
            continue
        whole, packed = (one, other) if kinds[0] is None else (other, one)
        compared = compare(packed, whole, decode_ms_per_token)
        if compared is None or compared.ratio is None:
            continue
        kind = next(kind for kind in kinds if kind is not None)
        interval = interval_words(compared.ratio_interval)
        sentence = f"With {kind} weights a token comes {compared.ratio:.2f} times as fast{interval}."
        return within(compared.ratio, compared.ratio_interval, QUANTIZED_SPEEDUP, sentence, whole, packed)
    return nothing("No configuration was run with packed weights and without.")


def batching_speeds_up(evidence: Evidence) -> Finding:
    """Runs hold one sample each, so that nothing in a session tells."""
    samples = sum(len(column.runs) for column in evidence.columns)
    return nothing(f"All {samples} runs here answered one sample at a time.")
