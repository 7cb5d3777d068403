"""Events as arrays of numbers: counts, decays, time surfaces, voxel grids.

Every function is a documented formula over all events it is given; events outside the canvas are left out. It knows no
colours (see `evprof.loaders.pictures.renderings`) and no files. Polarity enters as s = +1 (brighter) or -1 (darker).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray

Floats = npt.NDArray[np.float32]
Times = npt.NDArray[np.int64]

_CHUNK = 1 << 15
"""Events worked on at once, so that intermediate arrays stay in the processor's cache."""


def canvas_size(events: EventArray, width: int | None, height: int | None) -> tuple[int, int]:
    """Width and height asked for, or of the smallest canvas that holds every event. Raises UserError when empty."""
    columns = events.width if width is None else width
    rows = events.height if height is None else height
    if columns < 1 or rows < 1:
        raise UserError(f"A picture of {columns} x {rows} pixels cannot be drawn; the events or the canvas are empty.")
    return columns, rows


def inside(events: EventArray, width: int, height: int) -> EventArray:
    """The events on the canvas; the same object when that is all of them."""
    if events.width <= width and events.height <= height:
        return events
    kept = (events.x < width) & (events.y < height)
    return EventArray(events.x[kept], events.y[kept], events.t_us[kept], events.p[kept])


def flat_index(events: EventArray, width: int) -> npt.NDArray[np.intp]:
    """y * width + x of each event."""
    flat = events.y.astype(np.intp)
    flat *= width
    flat += events.x
    return flat


def count_image(
    events: EventArray,
    *,
    width: int | None = None,
    height: int | None = None,
    channels: Literal["total", "signed", "polarity"] = "total",
) -> npt.NDArray[np.int64]:
    """How many events each pixel has: int64 [H, W] in all, [H, W] brighter minus darker, or [2, H, W] darker, brighter.

    The event frame and the two-channel event histogram of the field (e.g. A. Maqueda et al., CVPR 2018).
    """
    columns, rows = canvas_size(events, width, height)
    shown = inside(events, columns, rows)
    flat = flat_index(shown, columns)
    if channels == "total":
        return np.bincount(flat, minlength=rows * columns).reshape(rows, columns)
    flat += shown.p.astype(np.intp) * (rows * columns)
    both = np.bincount(flat, minlength=2 * rows * columns).reshape(2, rows, columns)
    return both if channels == "polarity" else both[1] - both[0]


def decay_image(
    events: EventArray, *, tau_us: float, at_us: int | None = None, width: int | None = None, height: int | None = None
) -> Floats:
    """A leaky sum, float32 [H, W]: sum of s * exp(-(at - t) / tau) over a pixel's events up to `at_us`.

    What an event adds fades with the time constant `tau_us`; `at_us` is the last event's time if not given.
    """
    columns, rows = canvas_size(events, width, height)
    shown, at = _until(inside(events, columns, rows), at_us)
    _check_tau(tau_us)
    weights = _fading(at - shown.t_us, tau_us)
    np.negative(weights, out=weights, where=shown.p == 0)
    image = np.bincount(flat_index(shown, columns), weights=weights, minlength=rows * columns)
    return image.astype(np.float32).reshape(rows, columns)


def latest_times(
    events: EventArray, *, width: int | None = None, height: int | None = None, none_us: int = -1
) -> Times:
    """Time of each pixel's latest event by polarity, int64 [2, H, W] (darker, brighter); `none_us` where there is none.

    The surface of active events (R. Benosman et al. 2014); order in the file does not matter.
    """
    columns, rows = canvas_size(events, width, height)
    shown = inside(events, columns, rows)
    surface = np.full(2 * rows * columns, np.iinfo(np.int64).min, dtype=np.int64)
    flat = flat_index(shown, columns)
    flat += shown.p.astype(np.intp) * (rows * columns)
    np.maximum.at(surface, flat, shown.t_us)
    surface[surface == np.iinfo(np.int64).min] = none_us
    return surface.reshape(2, rows, columns)


def time_surface(
    events: EventArray,
    *,
    tau_us: float,
    at_us: int | None = None,
    decay: Literal["exponential", "linear"] = "exponential",
    width: int | None = None,
    height: int | None = None,
) -> Floats:
    """How fresh each pixel's latest event is, by polarity: float32 [2, H, W], 1 is now, 0 long ago or never.

    exp(-(at - t_last) / tau) (X. Lagorce et al., HOTS, 2017), or max(0, 1 - (at - t_last) / tau) when linear. Events
    after `at_us`, by default the last event's time, do not count.
    """
    columns, rows = canvas_size(events, width, height)
    shown, at = _until(inside(events, columns, rows), at_us)
    _check_tau(tau_us)
    never = np.iinfo(np.int64).min
    latest = latest_times(shown, width=columns, height=rows, none_us=never)
    fired = latest != never
    fresh = np.zeros(latest.shape, dtype=np.float32)
    ages = at - latest[fired]
    fresh[fired] = _fading(ages, tau_us) if decay == "exponential" else np.maximum(0.0, 1.0 - ages / tau_us)
    return fresh


def voxel_grid(
    events: EventArray,
    *,
    bins: int,
    start_us: int | None = None,
    stop_us: int | None = None,
    width: int | None = None,
    height: int | None = None,
    out: Floats | None = None,
) -> Floats:
    """Signed events spread over `bins` moments: float32 [bins, H, W].

    V[b] = sum of s * max(0, 1 - |b - t*|) with t* = (bins - 1) * (t - start) / (stop - start) (A. Z. Zhu et al.,
    CVPR 2019). The whole grid adds up to brighter minus darker events: none is lost at either end. Events outside
    `start_us`…`stop_us`, by default the first and last event's times, are left out. `out` is filled instead of a new
    array.
    """
    if bins < 1:
        raise UserError(f"A voxel grid needs at least one bin, not {bins}.")
    columns, rows = canvas_size(events, width, height)
    shown = inside(events, columns, rows)
    grid = np.zeros((bins, rows, columns), dtype=np.float32) if out is None else out
    grid.fill(0)
    if len(shown) == 0:
        return grid
    start = int(shown.t_us.min()) if start_us is None else start_us
    stop = int(shown.t_us.max()) if stop_us is None else stop_us
    cells = grid.reshape(-1)
    for first in range(0, len(shown), _CHUNK):
        _spread(cells, shown.slice_count(first, first + _CHUNK), (start, stop), bins, (columns, rows))
    return grid


def _spread(cells: Floats, events: EventArray, span_us: tuple[int, int], bins: int, size: tuple[int, int]) -> None:
    """Adds each event to the two bins around it. All dtypes match: a mismatch makes add.at 13 times slower."""
    start, stop = span_us
    if events.t_us.min() < start or events.t_us.max() > stop:
        events = events.slice_time(start, stop + 1)
    place = (events.t_us - start).astype(np.float64)
    place *= (bins - 1) / max(1, stop - start)
    lower = place.astype(np.intp)
    # An event at the very end belongs to the last bin entirely; it has no bin above.
    np.minimum(lower, max(0, bins - 2), out=lower)
    upper_share = (place - lower).astype(np.float32)
    sign = events.p.astype(np.float32)
    sign *= 2
    sign -= 1
    upper_share *= sign
    sign -= upper_share
    cell = flat_index(events, size[0])
    lower *= size[0] * size[1]
    cell += lower
    np.add.at(cells, cell, sign)
    if bins > 1:
        cell += size[0] * size[1]
        np.add.at(cells, cell, upper_share)


def _until(events: EventArray, at_us: int | None) -> tuple[EventArray, int]:
    latest = events.t_max_us
    if at_us is None or latest is None:
        return events, (latest or 0) if at_us is None else at_us
    if latest <= at_us:
        return events, at_us
    kept = events.t_us <= at_us
    return EventArray(events.x[kept], events.y[kept], events.t_us[kept], events.p[kept]), at_us


def _fading(ages_us: Times, tau_us: float) -> Floats:
    scaled = ages_us.astype(np.float32)
    scaled *= np.float32(-1.0 / tau_us)
    return np.exp(scaled, out=scaled)


def _check_tau(tau_us: float) -> None:
    if not tau_us > 0:
        raise UserError(f"A decay needs a time constant above 0 µs, not {tau_us:g}.")
