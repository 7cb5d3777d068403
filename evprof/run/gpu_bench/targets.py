"""What a GPU bench comes to: the summary, and each promised figure as met, missed or not measured.

It reads rows and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

from evprof.core.units import percent_text
from evprof.run.gpu_bench.plan import FAILED, OUT_OF_TIME

Rows = Sequence[Mapping[str, Any]]

MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"

FULL_SIZE = "7b"
"""The size that promises are about."""

NEAR_LIMIT = {640: 0.85, 4643: 0.80}
"""Least share of the measured bandwidth by positions."""

LEAST_SPEED = 3.0
"""Times transformers' eager step."""

MOST_OVERHEAD = 1.01

LEAST_SAME = 0.75
"""Of positions, in bfloat16: two passes over 32 layers of random weights agreed at 87 % of 128."""


@dataclass(frozen=True)
class Verdict:
    """One promise: `value` is what it is judged by, of `n` turns, pairs or positions with quartiles or interval
    `low` to `high` where there is one; `subject` is what was measured."""

    target: str
    verdict: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    subject: str = ""


def judged(rows: Rows, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every promise. They are about 7B shapes on a GPU: of anything else they are not measured."""
    is_full_size = (settings.get("device_type"), settings.get("size")) == ("cuda", FULL_SIZE)
    return [asdict(verdict) for verdict in _verdicts(rows if is_full_size else ())]


def _verdicts(rows: Rows) -> Iterable[Verdict]:
    for context, least in NEAR_LIMIT.items():
        yield _bandwidth(rows, context, least)
    yield _speed(rows)
    yield _instrumentation(rows)
    yield _same_tokens(rows)


def _bandwidth(rows: Rows, context: int, least: float) -> Verdict:
    target = f"decode reads at {percent_text(least)} of the measured bandwidth or more, {context} positions"
    best = fastest(rows, context, "mbu")
    if best is None:
        return Verdict(target, NOT_MEASURED)
    share = best["mbu"]
    # The share goes with one over the time: the quartiles change places.
    low, high = (share * best["ms"] / best[key] for key in ("ms_high", "ms_low"))
    return Verdict(target, _met(share >= least), share, low, high, best["turns"], best["contender"])


def _speed(rows: Rows) -> Verdict:
    target = f"decode is {LEAST_SPEED:g} times as fast as transformers' eager step or more, 640 positions"
    best = fastest(rows, 640, "vs_hf_eager")
    if best is None:
        return Verdict(target, NOT_MEASURED)
    ratio, low, high = (best[f"vs_hf_eager{end}"] for end in ("", "_low", "_high"))
    return Verdict(target, _met(ratio >= LEAST_SPEED), ratio, low, high, best["turns"], best["contender"])


def _instrumentation(rows: Rows) -> Verdict:
    target = "the instrumentation costs 1 % of a decoded token or less"
    overhead = next((row for row in rows if row.get("figure") == "overhead"), None)
    if overhead is None:
        return Verdict(target, NOT_MEASURED)
    ratio, low, high = (overhead[f"instrumented_vs_off{end}"] for end in ("", "_ci95_low", "_ci95_high"))
    subject = f"{overhead['shape']}, {overhead['step']} step"
    return Verdict(target, _met(ratio <= MOST_OVERHEAD), ratio, low, high, overhead["pairs"], subject)


def _same_tokens(rows: Rows) -> Verdict:
    """Of all our steps but the eager one, position by position; the value is the share of equal tokens."""
    target = f"{percent_text(LEAST_SAME)} of positions or more have the eager step's token, the others are near-ties"
    compared = [row for row in _decoding(rows) if row.get("is_forced") and row["contender"] != "ours"]
    positions, same, differing, near = (
        sum(row[key] for row in compared)
        for key in ("compared_positions", "same_positions", "divergences", "near_ties")
    )
    if not positions:
        return Verdict(target, NOT_MEASURED)
    share, subject = same / positions, f"{near:,} of {differing:,} that differ are near-ties"
    return Verdict(target, _met(share >= LEAST_SAME and near == differing), share, n=positions, subject=subject)


def _met(holds: bool) -> str:
    return MET if holds else MISSED


def is_ours(row: Mapping[str, Any]) -> bool:
    """Whether a row of a step is of one of ours."""
    return str(row["contender"]).startswith("ours")


def _decoding(rows: Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("figure") == "step" and row["phase"] == "decode" and row["turns"]]


def fastest(rows: Rows, context: int, key: str) -> Mapping[str, Any] | None:
    """Our fastest step at a context among those whose `key` is known."""
    known = [row for row in _decoding(rows) if row["context"] == context and row[key] is not None]
    return min(filter(is_ours, known), key=itemgetter("ms"), default=None)


def summary_of(sections: Rows, rows: Rows, *, is_complete: bool) -> dict[str, Any]:
    """The promised keys; figures are of our fastest step, None where they were not measured at that context."""

    def value(context: int, key: str) -> Any:
        best = fastest(rows, context, key)
        return None if best is None else best[key]

    return {
        "sections": len(sections),
        "failed": sum(section["status"] in (FAILED, OUT_OF_TIME) for section in sections),
        "decode_mbu_640": value(640, "mbu"),
        "decode_mbu_4643": value(4643, "mbu"),
        "ours_vs_hf_eager": value(640, "vs_hf_eager"),
        "is_complete": is_complete,
    }
