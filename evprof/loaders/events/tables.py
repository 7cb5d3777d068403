"""Events from columns and tables of numbers: what their columns are, the unit of their times, and their limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import MAX_COORDINATE, EventArray

NAMES: dict[str, tuple[str, ...]] = {
    "x": ("x",),
    "y": ("y",),
    "t": ("t", "ts", "t_us", "time", "timestamp", "timestamps"),
    "p": ("p", "pol", "polarity", "polarities"),
}
"""What recordings call their four columns."""

_LONGEST_SECONDS = 86_400.0


Columns = Mapping[str, npt.NDArray[Any]]

_ORDERS = {"t,x,y,p": ("t", "x", "y", "p"), "x,y,t,p": ("x", "y", "t", "p")}


def events_from_mapping(columns: Columns, source: str) -> EventArray:
    """Events from named columns. Raises UserError when one is missing; see `NAMES` for what they may be called."""
    keys = column_keys(columns, source)
    events = checked_events({name: columns[key] for name, key in keys.items()}, source)
    if len(events) == 0:
        raise UserError(f"{source}: the recording holds no events.")
    return events


def events_from_array(array: npt.NDArray[Any], source: str) -> EventArray:
    """Events from a structured array or an N x 4 array of (t, x, y, p) or (x, y, t, p); see `column_order`."""
    check_shape(array.dtype, array.shape, source)
    if array.dtype.names is not None:
        return events_from_mapping({name: array[name] for name in array.dtype.names if name}, source)
    order = column_order(array, source)
    return events_from_mapping({name: array[:, index] for index, name in enumerate(order)}, source)


def check_shape(dtype: np.dtype[Any], shape: tuple[int, ...], source: str) -> None:
    """Raises UserError unless such an array is one row of named fields, or has four columns, and at least one row."""
    if dtype.names is not None and len(shape) != 1:
        raise UserError(f"{source}: structured events of shape {list(shape)}; one dimension is expected.")
    if dtype.names is None and (len(shape) != 2 or shape[1] != 4):
        raise UserError(
            f"{source}: an array of {dtype} with shape {list(shape)} is not an event recording; "
            "a dict or structured array of x, y, t, p, or an N x 4 array, is expected."
        )
    if shape[0] == 0:
        raise UserError(f"{source}: the recording holds no events.")


def column_keys(names: Iterable[str], source: str) -> dict[str, str]:
    """Which of `names` is x, y, t and p. Raises UserError when one is missing."""
    listed = list(names)
    lowered = {name.lower(): name for name in listed}
    found: dict[str, str] = {}
    for column, spellings in NAMES.items():
        key = next((spelling for spelling in spellings if spelling in lowered), None)
        if key is None:
            shown = ", ".join(sorted(listed)[:8]) or "nothing"
            raise UserError(
                f"{source}: no column '{column}' among those it holds ({shown}); an event recording has x, y, t and p."
            )
        found[column] = lowered[key]
    return found


def column_order(array: npt.NDArray[Any], source: str) -> tuple[str, ...]:
    """What the columns of an N x 4 array are.

    Of the two orders the one is taken in which coordinates fit a sensor and times do not run backwards; raises
    UserError where that does not decide it.
    """
    fitting = [
        order for order in _ORDERS.values() if _fits({name: array[:, index] for index, name in enumerate(order)})
    ]
    if len(fitting) != 1:
        raise UserError(
            f"{source}: cannot tell which of its 4 columns is time (t,x,y,p and x,y,t,p both "
            f"{'fit' if fitting else 'fail'}); save it as a structured array or .npz with the names x, y, t, p."
        )
    return fitting[0]


def _fits(columns: Columns) -> bool:
    for name in "xy":
        column = columns[name]
        if column.min() < 0 or column.max() > MAX_COORDINATE or (column != np.floor(column)).any():
            return False
    return bool((columns["t"][1:] >= columns["t"][:-1]).all())


SECONDS, MICROSECONDS, NANOSECONDS = 6, 0, -3
"""A time is `10 ** exponent` µs per unit."""

EPOCH_NS = 10**17
"""Larger whole times are nanoseconds since 1970: as microseconds they are in the year 5138."""


def exponent_of(times: npt.NDArray[Any]) -> int:
    """The unit of times: fractions are seconds, the convention of text and float recordings."""
    if times.ndim != 1 or times.dtype.kind not in "iuf" or len(times) == 0:
        return MICROSECONDS
    if times.dtype.kind == "f" and np.isfinite(times).all() and (times != np.floor(times)).any():
        return SECONDS
    ends = [times[0], times[-1]]
    return NANOSECONDS if any(np.isfinite(end) and abs(int(end)) >= EPOCH_NS for end in ends) else MICROSECONDS


def checked_events(columns: Columns, source: str, *, exponent: int | None = None) -> EventArray:
    """Events of the columns x, y, t, p; without `exponent` the times themselves tell. Raises UserError."""
    times = columns["t"]
    exponent = exponent_of(times) if exponent is None else exponent
    if exponent == SECONDS:
        times = _microseconds(times, source)
    elif exponent == NANOSECONDS:
        times = times // 1000
    return EventArray.from_columns(columns["x"], columns["y"], times, columns["p"], source=source)


def _microseconds(t_s: npt.NDArray[Any], source: str) -> npt.NDArray[np.int64]:
    if len(t_s) and not np.isfinite(t_s).all():
        raise UserError(f"{source}: column 't' holds values that are not finite numbers.")
    span_s = float(t_s.max() - t_s.min()) if len(t_s) else 0.0
    if span_s > _LONGEST_SECONDS or (len(t_s) and float(np.abs(t_s).max()) > 1e12):
        raise UserError(
            f"{source}: times are fractions and span {span_s:g}; seconds or whole microseconds are expected."
        )
    rounded: npt.NDArray[np.int64] = np.rint(t_s.astype(np.float64) * 1e6).astype(np.int64)
    return rounded
