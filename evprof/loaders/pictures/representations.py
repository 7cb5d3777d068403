"""Events as numbers on a canvas: what lies on it, where, and spread over a voxel grid.

It knows no colours (see `evprof.loaders.pictures.renderings`) and no files.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray

Floats: TypeAlias = "npt.NDArray[np.float32]"

_CHUNK = 1 << 15
"""Events worked on at once, so that intermediate arrays stay in the processor's cache."""


MOST_PIXELS = 1 << 24
"""4096 x 4096: eight times the largest event camera. One event at a far corner must not fill the memory."""

_PIXELS_PER_EVENT = 4
"""More pixels need so many events: those simulated from films may be larger than any camera's."""


def check_canvas(columns: int, rows: int, events: int = 0) -> None:
    """Raises UserError for a picture that is empty, or larger than any sensor and its `events` account for."""
    if columns < 1 or rows < 1:
        raise UserError(f"A picture of {columns} x {rows} pixels cannot be drawn; the events or the canvas are empty.")
    if columns * rows > max(MOST_PIXELS, _PIXELS_PER_EVENT * events):
        raise UserError(
            f"The events would need a picture of {columns} x {rows} pixels, larger than any event camera's; the "
            "recording is damaged, so copy or export it again."
        )


def canvas_size(events: EventArray, width: int | None, height: int | None) -> tuple[int, int]:
    """Width and height asked for, or of the smallest canvas that holds every event. Raises UserError, see above."""
    columns = events.width if width is None else width
    rows = events.height if height is None else height
    check_canvas(columns, rows, len(events))
    return columns, rows


def inside(events: EventArray, width: int, height: int) -> EventArray:
    """The events on the canvas; the same object when that is all of them."""
    if events.width <= width and events.height <= height:
        return events
    return events.taken((events.x < width) & (events.y < height))


def flat_index(events: EventArray, width: int) -> npt.NDArray[np.intp]:
    """y * width + x of each event."""
    flat = events.y.astype(np.intp)
    flat *= width
    flat += events.x
    return flat


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

    V[b] = sum of s * max(0, 1 - |b - t*|) with s = +1 (brighter) or -1 (darker) and t* = (bins - 1) * (t - start) /
    (stop - start) (A. Z. Zhu et al., CVPR 2019). The whole grid adds up to brighter minus darker events: none is lost
    at either end. Events off the canvas and outside `start_us`…`stop_us`, by default the first and last event's times,
    are left out. `out` is filled instead of a new array.
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
