"""The statistics that an imported file holds, beside what its rows give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.export.report.parts import Badge, Block, Cell, Table, not_available

MOST_STATISTICS = 60
"""Statistics of one file that are listed; the rest is counted."""


def statistics_table(name: str, facts: Mapping[str, Any]) -> list[Block]:
    """The file's own statistics beside what its rows give."""
    told, everything, steady = (_numbers(facts, key) for key in ("statistics", "recomputed", "without_warmup"))
    known = [key for key in told if key in everything]
    rows = [
        (
            Cell(key),
            Cell(_six(told[key]), Badge.IMPORTED),
            Cell(_six(everything[key]), Badge.DERIVED, tone="" if _agrees(told[key], everything[key]) else "warn"),
            Cell(_six(steady[key]), Badge.DERIVED) if key in steady else not_available("(n = 0)"),
        )
        for key in known[:MOST_STATISTICS]
    ]
    if not rows:
        return []
    agreeing = sum(_agrees(told[key], everything[key]) for key in known)
    others = len(told) - len(known)
    caption = (
        f"{name}: its own statistics, in its own units; {agreeing} of {len(known)} are what its rows give"
        + (f", {others} more say nothing of rows" if others else "")
        + (f"; the first {MOST_STATISTICS} are shown" if len(known) > MOST_STATISTICS else "")
    )
    return [
        Table(
            ("statistic", "in the file", "from its rows", "without warm-up and zero times"),
            tuple(rows),
            caption=caption,
        )
    ]


def _numbers(facts: Mapping[str, Any], key: str) -> dict[str, float]:
    found = facts.get(key)
    if not isinstance(found, dict):
        return {}
    return {
        str(name): float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _agrees(told: float, own: float) -> bool:
    return abs(told - own) <= 1e-6 * max(abs(told), abs(own), 1e-12)


def _six(value: float) -> str:
    return f"{value:.6g}"
