"""Draws events exactly as EventGPT does, for the models.

It knows events and pixels, no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.pictures.representations import canvas_size, flat_index, inside

Picture: TypeAlias = "npt.NDArray[np.uint8]"
"""uint8 [height, width, 3], RGB."""

EVENTGPT_FRAMES = 5
"""EventGPT's number of event frames."""

_MOST_ORDINALS = (1 << 31) - 1


@dataclass(frozen=True)
class SliceTime:
    """Sensor time of one event frame: its smallest and largest timestamp in µs."""

    start_us: int
    end_us: int

    @property
    def label(self) -> str:
        """For people: `0.0–8.3 ms`."""
        return f"{self.start_us / 1000:.1f}–{self.end_us / 1000:.1f} ms"


def slice_times(events: EventArray, count: int) -> list[SliceTime]:
    """Sensor time covered by each of the `count` event frames."""
    slices = events.split_equal_count(count)
    return [SliceTime(int(part.t_us.min()), int(part.t_us.max())) for part in slices]


def render_event_frames(
    events: EventArray, count: int = EVENTGPT_FRAMES, *, width: int | None = None, height: int | None = None
) -> list[Picture]:
    """The `count` pictures EventGPT sees, each uint8 [H, W, 3].

    The canvas of each slice is max(y)+1 by max(x)+1 of that slice unless `width` and `height` fix it. Raises UserError
    when there are fewer events than frames.
    """
    return [render_events(part, width=width, height=height) for part in events.split_equal_count(count)]


def render_events(events: EventArray, *, width: int | None = None, height: int | None = None) -> Picture:
    """One picture of all `events`: white canvas, p == 0 blue, otherwise red; the last event in file order wins.

    Events outside a fixed canvas are left out. Order is guaranteed, not just observed: numpy promises nothing for
    repeated indices in an assignment, so the event left on a pixel is checked.
    """
    columns, rows = canvas_size(events, width, height)
    shown = inside(events, columns, rows)
    flat = flat_index(shown, columns)
    if len(shown) > _MOST_ORDINALS:
        raise UserError(f"{len(shown):,} events are more than one picture can be drawn of; ask for more frames.")
    return _drawn(flat, shown.p, rows * columns).reshape(rows, columns, 3)


def _drawn(flat: npt.NDArray[np.intp], p: npt.NDArray[np.uint8], pixels: int) -> npt.NDArray[np.uint8]:
    """[pixels, 3], only the pixels with events touched after the canvas was made white."""
    latest = np.empty(pixels, dtype=np.int32)
    order = np.arange(len(flat), dtype=np.int32)
    latest[flat] = order
    left = latest[flat]
    while (late := left < order).any():  # never seen; each turn moves at least one pixel to a later event
        latest[flat[late]] = order[late]
        left = latest[flat]
    # Events of one pixel all paint what the last one is, so that their order no longer matters. White, blue and red
    # differ from each other in whole parts: part by part is a third of the time of whole pixels.
    last = p[left]
    picture = np.full((pixels, 3), 255, dtype=np.uint8)
    picture[:, 0][flat] = np.negative(last)
    picture[:, 1][flat] = 0
    picture[:, 2][flat] = last - np.uint8(1)
    return picture
