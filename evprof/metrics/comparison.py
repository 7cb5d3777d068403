"""Runs side by side: every figure with its ratio to a baseline, what makes up the difference, and matching tokens.

Repeats of one request are one column (median, and an interval for its ratio). Warm-up and profiled runs stay out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import USAGE, UserError
from evprof.core.records import STAGES
from evprof.core.run_log import RunLog
from evprof.metrics import decoding, kv_cache, stages
from evprof.metrics.document import SCHEMA_VERSION
from evprof.metrics.speculation import acceptance
from evprof.metrics.stages import BASES, END_TO_END, MODEL_ONLY, MODEL_STAGES, WITHOUT_LOAD
from evprof.view.settings_text import run_label

RESAMPLES = 2000
"""Bootstrap resamples behind a 95 % interval."""

MIN_REPEATS = 3
"""Fewer repeats give no interval: resampling two values can only return those two."""

TOKEN_MATCH_DEFINITION = "same id at the same position"


@dataclass(frozen=True)
class Column:
    """Repeats of one configuration, compared as one; `session` is the file they came from, "" for the open one."""

    runs: tuple[RunLog, ...]
    session: str = ""

    @property
    def run_id(self) -> int:
        """The first repeat's number, by which the column is named."""
        return self.runs[0].run_id

    @property
    def label(self) -> str:
        """Number, mode, answering model and what is not at its default, for headings."""
        run = self.runs[0]
        model = run.info.models.get(run.info.role)
        parts = (str(run.run_id), run.info.mode, model.name if model else run.info.role, run_label([run]))
        return " · ".join(part for part in parts if part)


@dataclass(frozen=True)
class Row:
    """One figure of every column, its ratio to the baseline's and the ratio's 95 % interval where repeats allow it."""

    metric: str
    unit: str
    values: list[float | None]
    ratio: list[float | None]
    ci95: list[list[float] | None] | None
    lower_is_better: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """The row of the `compare` document."""
        return {
            "metric": self.metric,
            "unit": self.unit,
            "values": self.values,
            "ratio": self.ratio,
            "ci95": self.ci95,
        }


Reading = Callable[[RunLog], float | None]


@dataclass(frozen=True)
class Figure:
    """A comparable figure: name, unit, whether lower is better (None: neither), and how to read it off a run."""

    metric: str
    unit: str
    lower_is_better: bool | None
    read: Reading


def is_comparable(run: RunLog) -> bool:
    """Whether a run may take part in comparisons: neither warm-up nor profiled."""
    return not (run.info.warmup or run.info.profiled)


def columns(runs: Sequence[RunLog], session: str = "") -> list[Column]:
    """Comparable runs gathered into columns: repeats of one request in one role and mode are one column."""
    gathered: dict[tuple[int, str, str], list[RunLog]] = {}
    for run in runs:
        if is_comparable(run):
            gathered.setdefault((run.info.group_id, run.info.mode, run.info.role), []).append(run)
    return [Column(tuple(repeats), session) for repeats in gathered.values()]


def compare_document(listed: Sequence[Column], baseline: Column, basis: str = END_TO_END) -> dict[str, Any]:
    """The document of `compare`. Contributions, generation and token match are those of the first other column.

    They compare two runs, each its column's repeat of median total, so that the parts add up to a real difference.

    Raises UserError (exit code 2) for an unknown basis or fewer than two columns.
    """
    if basis not in BASES:
        raise UserError(f"Unknown basis '{basis}'; choose one of {', '.join(BASES)}.", exit_code=USAGE)
    others = [column for column in listed if column is not baseline]
    if not others:
        raise UserError("A comparison needs at least two runs that are neither warm-up nor profiled.")
    first, other = typical_run(baseline, basis), typical_run(others[0], basis)
    return {
        "schema_version": SCHEMA_VERSION,
        "basis": basis,
        "baseline": baseline.run_id,
        "columns": [
            {
                "run_ids": [run.run_id for run in column.runs],
                "label": column.label,
                "session": column.session or None,
            }
            for column in listed
        ],
        "rows": [row.to_json() for row in comparison_rows(listed, listed.index(baseline), basis)],
        "contributions": contributions(first, other, basis),
        "generation": generation(first, other),
        "token_match": token_match(first, other),
    }


def typical_run(column: Column, basis: str = END_TO_END) -> RunLog:
    """The repeat whose total is the (lower) median; the first one while totals are unknown."""
    measured = [(total, run) for run in column.runs if (total := stages.total_ms(run, basis)) is not None]
    if not measured:
        return column.runs[0]
    return sorted(measured, key=lambda pair: pair[0])[(len(measured) - 1) // 2][1]


def comparison_rows(listed: Sequence[Column], baseline: int = 0, basis: str = END_TO_END) -> list[Row]:
    """Every figure that at least one column has, against the column at index `baseline`."""
    rows = []
    for figure in _figures(basis):
        samples = [_sample(column, figure) for column in listed]
        if any(samples):
            rows.append(_row(figure, samples, listed, baseline))
    return rows


def _figures(basis: str) -> list[Figure]:
    """All figures in order of presentation."""
    figures = [
        Figure("total_ms", "ms", True, lambda run: stages.total_ms(run, basis)),
        Figure("time_to_first_token_ms", "ms", True, lambda run: decoding.time_to_first_token_ms(run, basis)),
        *(Figure(f"{name}_ms", "ms", True, _stage_reading(name)) for name in _stages_of(basis)),
    ]
    if basis != MODEL_ONLY:
        figures.append(Figure("unattributed_ms", "ms", True, stages.unattributed_ms))
    return [
        *figures,
        Figure("inter_token_latency_ms", "ms", True, decoding.inter_token_latency_ms),
        Figure("prefill_throughput_tok_s", "tok/s", False, decoding.prefill_throughput_tok_s),
        Figure("decode_throughput_tok_s", "tok/s", False, decoding.decode_throughput_tok_s),
        Figure("input_sequence_length", "tokens", None, decoding.input_length),
        Figure("visual_tokens", "tokens", None, decoding.visual_tokens),
        Figure("output_sequence_length", "tokens", None, decoding.output_length),
        Figure("kv_cache_bytes", "bytes", True, kv_cache.measured_bytes),
        Figure("weights_bytes", "bytes", True, lambda run: run.info.memory.weights_bytes),
        Figure("peak_allocated_bytes", "bytes", True, lambda run: run.info.memory.peak_allocated_bytes),
        Figure("peak_rss_bytes", "bytes", True, lambda run: run.info.memory.peak_rss_bytes),
        Figure("draft_acceptance_rate", "", False, _acceptance_reading("draft_acceptance_rate")),
        Figure("mean_acceptance_length", "tokens", False, _acceptance_reading("mean_acceptance_length")),
    ]


def _stages_of(basis: str) -> tuple[str, ...]:
    if basis == MODEL_ONLY:
        return MODEL_STAGES
    return STAGES[1:] if basis == WITHOUT_LOAD else STAGES


def _stage_reading(name: str) -> Reading:
    return lambda run: stages.stage_total_ms(run, name)


def _acceptance_reading(name: str) -> Reading:
    def read(run: RunLog) -> float | None:
        counts = acceptance(run)
        found: float | None = getattr(counts, name) if counts else None
        return found

    return read


def _sample(column: Column, figure: Figure) -> list[float]:
    return [value for value in map(figure.read, column.runs) if value is not None]


def _row(figure: Figure, samples: list[list[float]], listed: Sequence[Column], baseline: int) -> Row:
    values = [median(sample) if sample else None for sample in samples]
    ratio = [ratio_of(value, values[baseline]) for value in values]
    intervals: list[list[float] | None] = [
        None if index == baseline else _interval(samples[baseline], sample, _is_paired(listed[baseline], listed[index]))
        for index, sample in enumerate(samples)
    ]
    ci95 = intervals if any(intervals) else None
    return Row(figure.metric, figure.unit, values, ratio, ci95, figure.lower_is_better)


def ratio_of(value: float | None, base: float | None) -> float | None:
    """value / base; None when either is missing or the base is 0."""
    return None if value is None or not base else value / base


def _is_paired(one: Column, other: Column) -> bool:
    """Whether the two columns' repeats took turns in one request, so that their drift is shared."""
    same_request = one.session == other.session and one.runs[0].info.group_id == other.runs[0].info.group_id
    return same_request and len(one.runs) == len(other.runs)


def _interval(base: list[float], sample: list[float], paired: bool) -> list[float] | None:
    if min(len(base), len(sample)) < MIN_REPEATS:
        return None
    return ratio_interval(base, sample, paired=paired and len(base) == len(sample))


def ratio_interval(base: Sequence[float], sample: Sequence[float], *, paired: bool = False) -> list[float] | None:
    """95 % percentile-bootstrap interval [low, high] of median(sample) / median(base); None when a base median is 0.

    `paired` resamples repeats of both together. Seeded: the same data always gives the same interval.
    """
    chance = np.random.default_rng(20_240_601)
    below: npt.NDArray[np.float64] = np.asarray(base, dtype=np.float64)
    above: npt.NDArray[np.float64] = np.asarray(sample, dtype=np.float64)
    picks = chance.integers(0, len(below), (RESAMPLES, len(below)))
    others = picks if paired else chance.integers(0, len(above), (RESAMPLES, len(above)))
    bottom = np.median(below[picks], axis=1)
    if not bottom.all():
        return None
    low, high = np.percentile(np.median(above[others], axis=1) / bottom, [2.5, 97.5])
    return [float(low), float(high)]


def contributions(baseline: RunLog, other: RunLog, basis: str = END_TO_END) -> list[dict[str, Any]]:
    """What each stage (all roles), and what no stage covers, adds to the difference other - baseline.

    `share` is of the difference of the totals on this basis; None while that is unknown or 0.
    """
    totals = stages.total_ms(baseline, basis), stages.total_ms(other, basis)
    whole = None if totals[0] is None or totals[1] is None else totals[1] - totals[0]
    parts: list[tuple[str, float | None, float | None]] = [
        (name, stages.stage_total_ms(baseline, name), stages.stage_total_ms(other, name)) for name in _stages_of(basis)
    ]
    if basis != MODEL_ONLY:
        parts.append(("unattributed", stages.unattributed_ms(baseline), stages.unattributed_ms(other)))
    return [
        {"stage": name, "delta_ms": after - before, "share": (after - before) / whole if whole else None}
        for name, before, after in parts
        if before is not None and after is not None
    ]


def generation(baseline: RunLog, other: RunLog) -> dict[str, float | None]:
    """Ratio of decode times as decoded-token ratio (n - 1: the first is prefill's) times time-per-token ratio."""
    counts = [len(run.tokens) - 1 if len(run.tokens) > 1 else None for run in (baseline, other)]
    tokens = ratio_of(counts[1], counts[0])
    each = ratio_of(decoding.decode_ms_per_token(other), decoding.decode_ms_per_token(baseline))
    product = None if tokens is None or each is None else tokens * each
    return {"token_count_ratio": tokens, "time_per_token_ratio": each, "product": product}


def token_match(one: RunLog, other: RunLog) -> dict[str, Any]:
    """Tokens with the same id at the same position, over the length of the shorter answer; rate None over nothing."""
    pairs = list(zip(one.tokens, other.tokens, strict=False))
    matched = sum(left.token_id == right.token_id for left, right in pairs)
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": matched,
        "compared": len(pairs),
        "rate": matched / len(pairs) if pairs else None,
    }
