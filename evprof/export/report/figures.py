"""Figures as cells of a report: rounded to what they are worth, with their unit, and with a badge.

The only place where a section's numbers become text; it does not know where they come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evprof.core.units import bytes_text, percent_text, times_text
from evprof.export.report.parts import NOT_AVAILABLE, Badge, Cell, not_available

if TYPE_CHECKING:
    from evprof.metrics.arithmetic.statistics import Summary
    from evprof.metrics.estimates.estimates import Verdict

MOST_DECIMALS = 3
"""Of a millisecond: no clock of ours tells less than a µs."""

NO_SAMPLES = "(n = 0)"


def nothing_measured(note: str = "") -> Cell:
    """The cell for a statistic over no values: "n/a (n = 0)"."""
    return replace(not_available(NO_SAMPLES), note=note)


def number_cell(
    value: float | Summary | None, unit: str = "", badge: Badge = Badge.MEASURED, *, tone: str = "", note: str = ""
) -> Cell:
    """A number, or mean ± standard deviation of several, with its unit; "n/a (n = 0)" for None."""
    if value is None:
        return nothing_measured(note)
    text = number_text(value) if isinstance(value, int | float) else spread_text(value.mean, value.std)
    return Cell(f"{text} {unit}".rstrip(), badge, tone, note)


def ms_cell(
    value: float | Summary | None, badge: Badge = Badge.MEASURED, *, has_unit: bool = True, **said: str
) -> Cell:
    """Milliseconds, `66.2 ± 1.1 ms`: always ms, so that the rows of a column can be compared at a glance.

    `has_unit` False where the head of the column says ms.
    """
    return number_cell(value, "ms" if has_unit else "", badge, **said)


def rate_cell(value: float | Summary | None, unit: str = "tok/s") -> Cell:
    return number_cell(value, unit, Badge.DERIVED)


def count_cell(value: float | Summary | None, unit: str = "", badge: Badge = Badge.MEASURED, *, tone: str = "") -> Cell:
    """A count: whole numbers whole, `4,643`; a mean of counts with its spread."""
    if value is None:
        return nothing_measured()
    if not isinstance(value, int | float):
        # Counts that never differ are one count, not a mean with a spread of zero.
        if value.minimum != value.maximum:
            return number_cell(value, unit, badge, tone=tone)
        value = value.mean
    return Cell(f"{count_text(value)} {unit}".rstrip(), badge, tone)


def rows_cell(count: int | None) -> Cell:
    """How many runs, samples or rows stand behind figures: counted in the report's own data, so neither measured nor
    imported, and without a badge."""
    return nothing_measured() if count is None else Cell(count_text(count))


def bytes_cell(value: float | Summary | None, badge: Badge = Badge.MEASURED, *, note: str = "") -> Cell:
    """Bytes in binary units, `2,321.5 MiB`; of several values their mean."""
    if value is None:
        return nothing_measured(note)
    return Cell(bytes_text(value if isinstance(value, int | float) else value.mean), badge, note=note)


def figure_cell(value: float | Summary | None, unit: str, badge: Badge = Badge.MEASURED) -> Cell:
    """A figure as its unit is told, which is one of those of the vocabulary's figures."""
    if unit in ("", "tok/s", "J", "W"):
        return number_cell(value, unit, badge)
    cell = {"ms": ms_cell, "bytes": bytes_cell}.get(unit)
    return count_cell(value, badge=badge) if cell is None else cell(value, badge)


def share_cell(value: float | None, badge: Badge = Badge.DERIVED, *, note: str = "") -> Cell:
    """A share of 0…1 in percent."""
    return nothing_measured(note) if value is None else Cell(share_text(value), badge, note=note)


def ratio_cell(value: float | None, interval: Sequence[float] | None = None, *, badge: Badge = Badge.DERIVED) -> Cell:
    """A ratio to a baseline, `8.59× [8.51, 8.66]`, with its 95 % interval where there is one."""
    if value is None:
        return not_available()
    text = f"{ratio_text(value)}{'' if interval is None else f' {interval_text(interval)}'}"
    return Cell(text, badge)


def verdict_cell(found: Verdict | None, *, lower_is_better: bool | None = None) -> Cell:
    """The ratio of a comparison with its interval, good or bad where it is clear; "n/a" without a comparison."""
    if found is None:
        return not_available()
    cell = ratio_cell(found.ratio, found.interval)
    if lower_is_better is None:
        return cell
    return replace(cell, tone=found.judge(lower_is_better=lower_is_better), p=found.p)


def number_text(value: float, decimals: int | None = None) -> str:
    """Four significant digits, at most three of them after the point: `66.16`, `568.1`, `0.012`.

    `decimals` sets the digits after the point. What is too small for them is given in powers of ten, never as 0.
    """
    if not math.isfinite(value):
        return NOT_AVAILABLE if math.isnan(value) else ("∞" if value > 0 else "-∞")
    digits = _decimals_of(value) if decimals is None else decimals
    text = f"{value:,.{digits}f}"
    if decimals is None and 0 < abs(value) < 10**-digits:
        return f"{value:.1e}"
    return text if any(character in "123456789" for character in text) else text.lstrip("-")


def count_text(value: float) -> str:
    """A count; a mean of counts with up to two digits after the point."""
    if not math.isfinite(value):
        return number_text(value)
    if value == int(value):
        return f"{int(value):,}"
    return number_text(value, 2 if abs(value) < 100 else 1)


def spread_text(mean: float, std: float | None) -> str:
    """`66.2 ± 1.1`: the spread to two significant digits, the mean to the same place (GUM 7.2.6).

    Nothing is rounded before the point, and no more than a µs is told after it.
    """
    if std is None or not math.isfinite(std):
        return number_text(mean)
    if std == 0:
        return f"{number_text(mean)} ± 0"
    decimals = min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(std))))
    if abs(mean) < 10**-MOST_DECIMALS and std < 10**-MOST_DECIMALS:
        return f"{mean:.1e} ± {std:.1e}"
    if std < 0.5 * 10**-MOST_DECIMALS:
        return f"{number_text(mean, decimals)} ± <{10**-MOST_DECIMALS:.{MOST_DECIMALS}f}"
    return f"{number_text(mean, decimals)} ± {number_text(std, decimals)}"


def share_text(value: float) -> str:
    """`84.2 %`; small shares keep two significant digits, `0.43 %`."""
    if not math.isfinite(value):
        return NOT_AVAILABLE
    return percent_text(value, 0 if value in (0, 1) else 2 if abs(value) < 0.01 else 1)


def ratio_text(value: float) -> str:
    """`8.59×`; below 0.1 two significant digits."""
    if not math.isfinite(value):
        return number_text(value)
    return times_text(value, 2 if abs(value) >= 0.1 or value == 0 else 1 - math.floor(math.log10(abs(value))))


def interval_text(interval: Sequence[float] | None, unit: str = "") -> str:
    """`[65.9, 66.4] ms`, to the place where the ends differ by two digits; "" without an interval.

    Without a unit it is of a ratio, and has at least two digits after the point.
    """
    if interval is None:
        return ""
    decimals = interval_decimals(interval)
    if not unit:
        decimals = max(decimals, 2)
    low, high = (number_text(end, decimals) for end in interval)
    return f"[{low}, {high}] {unit}".rstrip()


def interval_decimals(interval: Sequence[float]) -> int:
    """Digits after the point to which an interval is worth telling."""
    low, high = interval[0], interval[1]
    width = abs(high - low)
    decimals = 2 if not width else min(MOST_DECIMALS, max(0, 1 - math.floor(math.log10(width))))
    # An end that is not 0 must not read as 0: whether an interval holds it is what is looked for.
    while decimals < MOST_DECIMALS and any(end and not round(end, decimals) for end in (low, high)):
        decimals += 1
    return decimals


def interval_cell(interval: Sequence[float] | None, note: str) -> Cell:
    """A 95 % interval in ms, which the head of the column says, or n/a with the reason as `note`."""
    if interval is None:
        return Cell(NOT_AVAILABLE, tone="dim", note=note)
    return Cell(interval_text(interval, "ms").removesuffix(" ms"), Badge.DERIVED, note=note)


def _decimals_of(value: float) -> int:
    if value == 0:
        return 0
    return min(MOST_DECIMALS, max(0, 3 - math.floor(math.log10(abs(value)))))
