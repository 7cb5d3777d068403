"""Turns arrays of unknown layout (a dict, named fields or N x 4) into checked events; it knows no file format."""

from __future__ import annotations

from collections.abc import Mapping
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


def events_from_mapping(columns: Mapping[str, npt.NDArray[Any]], source: str) -> EventArray:
    """Events from named columns. Raises UserError when one is missing; see `NAMES` for what they may be called."""
    lowered = {key.lower(): value for key, value in columns.items()}
    found: dict[str, npt.NDArray[Any]] = {}
    for column, spellings in NAMES.items():
        key = next((spelling for spelling in spellings if spelling in lowered), None)
        if key is None:
            listed = ", ".join(sorted(columns)[:8]) or "nothing"
            raise UserError(
                f"{source}: no column '{column}' among those it holds ({listed}); an event recording has x, y, t and p."
            )
        found[column] = lowered[key]
    return _events(found["x"], found["y"], found["t"], found["p"], source)


def events_from_array(array: npt.NDArray[Any], source: str) -> EventArray:
    """Events from a structured array or an N x 4 array of (t, x, y, p) or (x, y, t, p).

    Of the two orders the one is taken in which coordinates fit a sensor and times do not run backwards; raises
    UserError where that does not decide it.
    """
    if array.dtype.names is not None:
        if array.ndim != 1:
            raise UserError(f"{source}: structured events of shape {list(array.shape)}; one dimension is expected.")
        return events_from_mapping({name: array[name] for name in array.dtype.names if name}, source)
    if array.ndim != 2 or array.shape[1] != 4:
        raise UserError(
            f"{source}: an array of {array.dtype} with shape {list(array.shape)} is no event recording; "
            "a dict or structured array of x, y, t, p, or an N x 4 array, is expected."
        )
    if len(array) == 0:
        raise UserError(f"{source}: the recording holds no events.")
    orders = {"t,x,y,p": (1, 2, 0), "x,y,t,p": (0, 1, 2)}
    fitting = [name for name, (x, y, t) in orders.items() if _fits(array[:, x], array[:, y], array[:, t])]
    if len(fitting) != 1:
        raise UserError(
            f"{source}: cannot tell which of its 4 columns is time (t,x,y,p and x,y,t,p both "
            f"{'fit' if fitting else 'fail'}); save it as a structured array or .npz with the names x, y, t, p."
        )
    x, y, t = orders[fitting[0]]
    return _events(array[:, x], array[:, y], array[:, t], array[:, 3], source)


def _fits(x: npt.NDArray[Any], y: npt.NDArray[Any], t: npt.NDArray[Any]) -> bool:
    for column in (x, y):
        if column.min() < 0 or column.max() > MAX_COORDINATE or (column != np.floor(column)).any():
            return False
    return bool((t[1:] >= t[:-1]).all())


def _events(
    x: npt.NDArray[Any], y: npt.NDArray[Any], t: npt.NDArray[Any], p: npt.NDArray[Any], source: str
) -> EventArray:
    if t.ndim == 1 and t.dtype.kind == "f" and len(t) and np.isfinite(t).all() and (t != np.floor(t)).any():
        t = _microseconds(t, source)
    events = EventArray.from_columns(x, y, t, p, source=source)
    if len(events) == 0:
        raise UserError(f"{source}: the recording holds no events.")
    return events


def _microseconds(t_s: npt.NDArray[Any], source: str) -> npt.NDArray[np.int64]:
    """Fractional times are seconds, the convention of text and float recordings."""
    span_s = float(t_s.max() - t_s.min())
    if span_s > _LONGEST_SECONDS or abs(float(t_s.max())) > 1e12:
        raise UserError(
            f"{source}: times are fractions and span {span_s:g}; seconds or whole microseconds are expected."
        )
    rounded: npt.NDArray[np.int64] = np.rint(t_s.astype(np.float64) * 1e6).astype(np.int64)
    return rounded
