"""Figures of interleaved runs with a switch on and off: speed, memory, agreement, and a verdict.

A ratio is off / on, so above 1 is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

from evprof.core.run_log import RunLog
from evprof.core.vocabulary.figures import is_clear
from evprof.metrics.comparison.differences import TOKEN_MATCH_DEFINITION
from evprof.metrics.estimates.estimates import Observation
from evprof.metrics.estimates.estimates import verdict as compared
from evprof.metrics.figures.kv_cache import measured_bytes
from evprof.metrics.figures.stages import WITHOUT_LOAD, stage_total_ms, total_ms
from evprof.run.switches.variants import Expectation, Variant, VariantChange

T = TypeVar("T")

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
class MeasuredSide:
    """A switch on, or off: the times of its turns, whole and of the stages that the switch is for, in ms.

    `answer` are the token ids of the first turn, which ends where the model ends; `first_stage_ms` is that turn's time.
    Bytes are of the weights, of the last turn's caches, and of the highest peak.
    """

    whole_ms: Sequence[float | None]
    stage_ms: Sequence[float | None]
    answer: Sequence[int]
    setup_ms: float | None
    first_stage_ms: float | None
    weights_bytes: int | None
    kv_bytes: int | None
    peak_bytes: int | None


def in_turns(repeat: int, make: Callable[[bool], T]) -> tuple[list[T], list[T]]:
    """What `make` gives for off and for on, one after the other; every other pair begins with on."""
    made: tuple[list[T], list[T]] = ([], [])
    for index in range(repeat):
        for is_on in (False, True) if index % 2 == 0 else (True, False):
            made[is_on].append(make(is_on))
    return made


def side_of(first: RunLog, runs: Sequence[RunLog], stages: Sequence[str], *, is_alone: bool) -> MeasuredSide:
    """A side by its first run and its timed ones; `is_alone`: no other model was in memory in the first.

    Weights and caches are the whole run's: both models' where two take part. The timed answers are equally long.
    """
    last = runs[-1]
    caches = [count for role in last.info.kv if (count := measured_bytes(last, role)) is not None]
    memories = [run.info.memory for run in ([first] if is_alone else runs)]
    peaks = [peak for memory in memories if (peak := memory.peak_allocated_bytes or memory.peak_rss_bytes) is not None]
    return MeasuredSide(
        [total_ms(run, WITHOUT_LOAD) for run in runs],
        [stages_ms(run, stages) for run in runs],
        [token.token_id for token in first.tokens],
        setup_ms(first),
        stages_ms(first, stages),
        last.info.memory.weights_bytes,
        sum(caches) if caches else None,
        max(peaks, default=None),
    )


def setup_ms(run: RunLog) -> float | None:
    """Loading, quantizing and compiling before a run's zero, all models; None when there was nothing of it."""
    parts = [part for facts in run.info.setup.values() for part in (facts.weights_ms, facts.compile_ms)]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def pair_ratio(off_ms: Sequence[float | None], on_ms: Sequence[float | None]) -> Ratio | None:
    """The ratio of durations measured in turns; None when there is no complete pair or a duration of 0."""
    whole = [(off, on) for off, on in zip(off_ms, on_ms, strict=True) if off is not None and on]
    if not whole:
        return None
    sides = [[Observation(pair[side], turn=turn) for turn, pair in enumerate(whole)] for side in (0, 1)]
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


def agreement(off: Sequence[int], on: Sequence[int]) -> dict[str, Any]:
    """Token match of two answers, and the first position at which they part (None: they do not)."""
    same = [one == other for one, other in zip(off, on, strict=False)]
    compared, matched = len(same), sum(same)
    return {
        "definition": TOKEN_MATCH_DEFINITION,
        "matched": matched,
        "compared": compared,
        "rate": matched / compared if compared else None,
        "first_divergence": None if all(same) else same.index(False),
        "answer_tokens": [len(off), len(on)],
    }


def row_of(
    head: dict[str, Any],
    expects: Expectation | None,
    off: MeasuredSide,
    on: MeasuredSide,
    *,
    peak_of: str,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    stage = pair_ratio(off.stage_ms, on.stage_ms)
    sides = {"off": off, "on": on}
    return {
        **head,
        "status": "measured",
        "reason": None,
        "pairs": len(off.whole_ms),
        **_ratio_json("run", pair_ratio(off.whole_ms, on.whole_ms)),
        **_ratio_json("stage", stage),
        **{f"weights_{name}_bytes": side.weights_bytes for name, side in sides.items()},
        **{f"kv_{name}_bytes": side.kv_bytes for name, side in sides.items()},
        **{f"peak_{name}_bytes": side.peak_bytes for name, side in sides.items()},
        "peak_of": peak_of,
        "agreement": agreement(off.answer, on.answer),
        "setup_off_ms": off.setup_ms,
        "setup_on_ms": on.setup_ms,
        "first_stage_on_ms": on.first_stage_ms,
        "verdict": verdict(stage, expects),
        "warnings": list(warnings),
    }


def head_of(variant: Variant, title: str, role: str, plain: RunLog) -> dict[str, Any]:
    """What a row says before anything is measured; `plain` is a run of that model with everything off."""
    facts = plain.info.models.get(role)
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


def row_without(head: dict[str, Any], reason: str) -> dict[str, Any]:
    return head | {"status": NOT_HERE, "reason": reason, "verdict": NOT_HERE}


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


def _ratio_json(name: str, ratio: Ratio | None) -> dict[str, Any]:
    return {
        f"{name}_off_ms": ratio.off_ms if ratio else None,
        f"{name}_on_ms": ratio.on_ms if ratio else None,
        f"{name}_speed": ratio.median if ratio else None,
        f"{name}_speed_ci95": list(ratio.ci95) if ratio and ratio.ci95 else None,
    }
