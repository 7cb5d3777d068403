"""The columns of a list that say which part of a recording is meant, as times in µs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from evprof.loaders.decimals import decimal_of
from evprof.loaders.manifests.problems import shown

TIMES: Mapping[str, str] = {"start": "start_us", "duration": "duration_us", "video_offset": "video_offset_us"}
"""Field of a row -> field of a sample."""

UNITS_US: Mapping[str, int] = {"_ms": 1000, "_us": 1, "_s": 1_000_000}
"""What the end of a column's name says, the preferred spelling first."""

_LONGEST_US = 2**60


def time_columns(field: str) -> tuple[str, ...]:
    """What the column of a time may be called."""
    return tuple(f"{field}{unit}" for unit in UNITS_US)


def time_us(column: str, value: object) -> int | None:
    """The time of a cell, exact to the µs; None for an empty cell. Raises ValueError with a clause of what is wrong."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    unit = next(factor for ending, factor in UNITS_US.items() if column.endswith(ending))
    number = _number(value)
    if number is None or not abs(number * unit) < _LONGEST_US:
        raise ValueError(f"its {column} should be a time, not '{shown(str(value), 40)}'")
    return round(number * unit)


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    # Through text: 0.1 is a tenth, not the nearest float.
    return decimal_of(str(value))
