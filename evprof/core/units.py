"""Units and how people read them; every name that holds a number ends in its unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
MIB = 1 << 20
GIB = 1 << 30


def ms_from_ns(duration_ns: int) -> float:
    return duration_ns / NS_PER_MS


def bytes_text(count: int | float | None) -> str:
    """A byte count in binary units with three significant digits: `2,321.5 MiB`; "n/a" for None."""
    return "n/a" if count is None else _in_unit(count, _unit_of(count))


def bytes_texts(counts: Sequence[int | float | None]) -> list[str]:
    """Counts that stand beside each other in the unit of the largest: `0.27 MiB`, `2.89 MiB`; none, and one that
    would have no digit left there, in its own."""
    unit = _unit_of(max((abs(count) for count in counts if count is not None), default=0))
    return [
        bytes_text(count) if count is None or abs(count) < unit.size / 100 else _in_unit(count, unit)
        for count in counts
    ]


class _Unit(NamedTuple):
    """Of bytes. `most`: from so many of it on the next one is told; `digits` after the point."""

    name: str
    size: int
    most: float
    digits: int = 2


_UNITS = (_Unit("B", 1, 1024, 0), _Unit("KiB", 1 << 10, 1024), _Unit("MiB", MIB, 10_240), _Unit("GiB", GIB, math.inf))


def _unit_of(count: int | float) -> _Unit:
    return next((unit for unit in _UNITS if abs(count) / unit.size < unit.most), _UNITS[-1])


def _in_unit(count: int | float, unit: _Unit) -> str:
    value = count / unit.size
    digits = min(1, unit.digits) if value >= 100 and unit.most < math.inf else unit.digits
    return f"{value:,.{digits}f} {unit.name}"


def memory_text(count: int) -> str:
    """Bytes to compare need with room: GiB with two digits from one GiB up, `2.35 GiB`; below as `bytes_text`."""
    return f"{count / GIB:,.2f} GiB" if count >= GIB else bytes_text(count)


def count_text(count: int, noun: str) -> str:
    """`1 round`, `1,204 rounds`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def ms_text(duration_ms: float | None) -> str:
    """Milliseconds to three significant digits with the unit that suits: `640 µs`, `66.2 ms`, `1.27 s`."""
    if duration_ms is None:
        return "n/a"
    size = abs(duration_ms)
    if size >= 1000:
        return f"{duration_ms / 1000:,.{2 if size < 10_000 else 1}f} s"
    if size >= 100:
        return f"{duration_ms:.0f} ms"
    if size >= 1:
        return f"{duration_ms:.{1 if size >= 10 else 2}f} ms"
    return f"{duration_ms * 1000:.0f} µs"


def percent_text(share: float | None, digits: int = 0) -> str:
    """A share of 0…1 in percent with so many digits after the point: `12 %`; "n/a" for None.
    What rounds to nothing has no sign."""
    return "n/a" if share is None else f"{100 * share:z.{digits}f} %"


TIMES = "×"
"""The sign behind a ratio, for people."""


def times_text(ratio: float, digits: int = 2) -> str:
    """A ratio with so many digits after the point: `0.67×`."""
    return f"{ratio:,.{digits}f}{TIMES}"


def ratio_digits(ratio: float, width: float = 0.0) -> int:
    """Digits after the point, 2 to 5, that tell a small ratio from nothing, and an interval's ends, so wide, from one
    another. Where all runs count the same an interval is as wide as a rounding error, which no digit can tell."""
    told = min((part for part in (abs(ratio), width) if part > 1e-9 * abs(ratio)), default=1)
    return min(5, max(2, -math.floor(math.log10(told))))


def number_text(value: float, digits: int = 4) -> str:
    """A measured number for people: so many significant digits, all of them before the point, and never an exponent.

    `16,812`, `0.8421`, `0.00012`; what is beyond sense (10¹⁵ or 10⁻⁹) keeps its exponent.
    """
    size = abs(value)
    if value == 0 or not math.isfinite(value) or not 1e-9 <= size < 1e15:
        return f"{value:.{digits}g}"
    # The power of ten after rounding: 9.9996 has two digits before the point.
    power = int(f"{size:.{digits - 1}e}".partition("e")[2])
    if power >= digits - 1:
        return f"{value:,.0f}"
    shown = f"{value:,.{digits - 1 - power}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def amount_text(value: float | None, unit: str) -> str:
    """Three significant digits with the unit, all digits from 100 on: `0.0213 J`, `1,187 W`; "n/a" for None."""
    if value is None:
        return "n/a"
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{number_text(value, 3)} {unit}"
