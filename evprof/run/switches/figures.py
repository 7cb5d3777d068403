"""Figures of interleaved runs with a switch on and off: speed, memory, agreement, and a verdict.

A ratio is off / on, so above 1 is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.comparison.document import token_match
from evprof.metrics.estimates.estimates import Observation
from evprof.metrics.estimates.estimates import verdict as compared
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import WITHOUT_LOAD, stage_total_ms, total_ms
from evprof.run.switches.variants import Expectation, Variant, VariantChange

MARGIN = 0.02
"""A smaller difference counts as none."""

AS_EXPECTED, MORE, LESS, NO_GAIN, SLOWER, FASTER = "as expected", "more", "less", "no gain", "slower", "faster"
NOT_HERE = "not here"


@dataclass(frozen=True)
class Ratio:
    """off / on of one duration: the median of the pairs' ratios, its 95 % interval, and both sides' medians in ms."""

    off_ms: float
    on_ms: float
    median: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class TimedPair:
    off: RunLog
    on: RunLog


@dataclass(frozen=True)
class VariantSide:
    """One side of a variant: its first run, which answers and ends where the model ends, and its setup time.

    `is_alone`: no other model was in memory then, so that its peak is this side's own.
    """

    first: RunLog
    setup_ms: float | None
    is_alone: bool = False


@dataclass(frozen=True)
class MeasuredVariant:
    variant: Variant
    title: str
    role: str
    off: VariantSide
    on: VariantSide
    pairs: Sequence[TimedPair] = field(default_factory=list)


def pair_ratio(off_ms: Sequence[float | None], on_ms: Sequence[float | None]) -> Ratio | None:
    """The ratio of durations measured in turns; None when there is no complete pair or a duration of 0."""
    whole = [(off, on) for off, on in zip(off_ms, on_ms, strict=True) if off is not None and on]
    if not whole:
        return None
    sides = [[Observation(pair[side], began_s=2.0 * turn + side) for turn, pair in enumerate(whole)] for side in (0, 1)]
    found = compared(sides[1], sides[0])
    middle = median([off / on for off, on in whole])
    interval = found.interval if found else None
    if interval is not None:
        interval = min(interval[0], middle), max(interval[1], middle)
    return Ratio(median([off for off, _ in whole]), median([on for _, on in whole]), middle, interval)


def stages_ms(run: RunLog, names: Sequence[str]) -> float | None:
    """Time of those stages together, all roles, in ms; None when one of them was not measured."""
    parts = [stage_total_ms(run, name) for name in names]
    return None if None in parts else sum(part for part in parts if part is not None)


def verdict(stage: Ratio | None, expects: Expectation | None) -> str | None:
    """The word for a ratio of the stages a switch is for; None when the pairs give no interval."""
    if stage is None or stage.ci95 is None:
        return None
    if not is_clear(stage.ci95) or abs(stage.median - 1) < MARGIN:
        return NO_GAIN
    if stage.median < 1:
        return SLOWER
    if expects is None:
        return FASTER
    if stage.median < expects.low:
        return LESS
    return MORE if stage.median > expects.high else AS_EXPECTED


def agreement(off: RunLog, on: RunLog) -> dict[str, Any]:
    """Token match of two answers, and the first position at which they part (None: they do not)."""
    ids = [[token.token_id for token in run.tokens] for run in (off, on)]
    shared = min(map(len, ids))
    parted = next((place for place in range(shared) if ids[0][place] != ids[1][place]), None)
    return token_match(off, on) | {"first_divergence": parted, "answer_tokens": [len(ids[0]), len(ids[1])]}


def row_of(measured: MeasuredVariant) -> dict[str, Any]:
    variant, off, on = measured.variant, measured.off, measured.on
    whole = _ratio(measured, lambda run: total_ms(run, WITHOUT_LOAD))
    stage = _ratio(measured, lambda run: stages_ms(run, variant.stages))
    head = measured_row(
        variant, measured.title, measured.role, off.first, pairs=len(measured.pairs), whole=whole, stage=stage
    )
    return head | {
        **_memory(measured),
        "agreement": agreement(off.first, on.first),
        "setup_off_ms": off.setup_ms,
        "setup_on_ms": on.setup_ms,
        "first_stage_on_ms": stages_ms(on.first, variant.stages),
        "verdict": verdict(stage, variant.expects),
        "warnings": [line for line in on.first.info.warnings if line not in off.first.info.warnings],
    }


def measured_row(
    variant: Variant, title: str, role: str, plain: RunLog, *, pairs: int, whole: Ratio | None, stage: Ratio | None
) -> dict[str, Any]:
    return (
        head_of(variant, title, role, plain)
        | {"status": "measured", "reason": None, "pairs": pairs}
        | _ratio_json("run", whole)
        | _ratio_json("stage", stage)
    )


def head_of(variant: Variant, title: str, role: str, plain: RunLog | None) -> dict[str, Any]:
    """What a row says before anything is measured; `plain` is a run of that model with everything off, if any."""
    facts = plain.info.models.get(role) if plain else None
    return {
        "switch": variant.switch,
        "variant": variant.name,
        "title": title,
        "against": variant.against,
        "off_is_plain": variant.off == VariantChange(),
        "role": role,
        "model": facts.name if facts else None,
        "stages": list(variant.stages),
        "expected": variant.expects.text if variant.expects else None,
    }


def row_without(variant: Variant, title: str, role: str, plain: RunLog | None, reason: str) -> dict[str, Any]:
    return head_of(variant, title, role, plain) | {"status": NOT_HERE, "reason": reason, "verdict": NOT_HERE}


def summary_of(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How many of each verdict, the fastest against everything off that changed no token, and how far equal things were
    apart."""
    measured = [row for row in rows if row["status"] == "measured"]
    equal = [row["run_speed"] for row in measured if row["switch"] == "nothing" and row["run_speed"]]
    real = [row for row in measured if row["switch"] != "nothing" and row["off_is_plain"] and row["run_speed"]]
    exact = [row for row in real if row["agreement"]["rate"] == 1.0]
    best = max(exact, key=lambda row: row["run_speed"], default=None)
    words = [row["verdict"] for row in rows if row["verdict"]]
    return {
        "measured": len(measured),
        "not_here": len(rows) - len(measured),
        "a_vs_a": median(equal) if equal else None,
        "best_exact": f"{best['title']} ({best['role']})" if best else None,
        "best_exact_speed": best["run_speed"] if best else None,
        "verdicts": {word: words.count(word) for word in sorted(set(words))},
    }


def _ratio(measured: MeasuredVariant, read: Any) -> Ratio | None:
    return pair_ratio([read(pair.off) for pair in measured.pairs], [read(pair.on) for pair in measured.pairs])


def _ratio_json(name: str, ratio: Ratio | None) -> dict[str, Any]:
    return {
        f"{name}_off_ms": ratio.off_ms if ratio else None,
        f"{name}_on_ms": ratio.on_ms if ratio else None,
        f"{name}_speed": ratio.median if ratio else None,
        f"{name}_speed_ci95": list(ratio.ci95) if ratio and ratio.ci95 else None,
    }


def _memory(measured: MeasuredVariant) -> dict[str, Any]:
    """Bytes of both sides. Weights and caches are the whole run's: both models' where two take part.

    Caches are the timed runs', whose answers are equally long.
    """
    found: dict[str, Any] = {}
    timed = ([pair.off for pair in measured.pairs], [pair.on for pair in measured.pairs])
    for name, side, runs in zip(("off", "on"), (measured.off, measured.on), timed, strict=True):
        last = runs[-1] if runs else side.first
        caches = [count for role in last.info.kv if (count := measured_bytes(last, role)) is not None]
        peaks = [_peak(run) for run in ([side.first] if side.is_alone else runs or [side.first])]
        known = [peak for peak in peaks if peak is not None]
        found[f"weights_{name}_bytes"] = last.info.memory.weights_bytes
        found[f"kv_{name}_bytes"] = sum(caches) if caches else None
        found[f"peak_{name}_bytes"] = max(known) if known else None
    return found | {"peak_of": "allocated" if measured.on.first.info.memory.peak_allocated_bytes else "rss"}


def _peak(run: RunLog) -> int | None:
    memory = run.info.memory
    return memory.peak_allocated_bytes or memory.peak_rss_bytes
