"""Draws events as pictures: exactly as EventGPT does for the models, and quickly for the player.

It knows events and pixels, no files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray

Picture = npt.NDArray[np.uint8]
"""uint8 [height, width, 3], RGB."""

EVENTGPT_COLORS: npt.NDArray[np.uint8] = np.array([[255, 255, 255], [0, 0, 255], [255, 0, 0]], dtype=np.uint8)
"""No event, p = 0, p = 1: white, blue, red (reference: EventGPT's generate_event_image)."""

EVENTGPT_FRAMES = 5
"""EventGPT's number of event frames."""


@dataclass(frozen=True)
class SliceTime:
    """Sensor time of one event frame: its smallest and largest timestamp in µs."""

    start_us: int
    end_us: int

    @property
    def label(self) -> str:
        """For people: `0.0–8.3 ms`."""
        return f"{self.start_us / 1000:.1f}–{self.end_us / 1000:.1f} ms"


def slice_bounds(events: int, count: int) -> list[tuple[int, int]]:
    """Half-open event ranges of EventGPT's split: `count` slices of floor(events / count), the last one to the end."""
    if count < 1 or events < count:
        raise UserError(f"{events} events cannot be split into {count} event frames; ask for fewer frames.")
    size = events // count
    return [(index * size, events if index == count - 1 else (index + 1) * size) for index in range(count)]


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
    repeated indices in an assignment, so the latest event of a pixel is found as a maximum.
    """
    columns = events.width if width is None else width
    rows = events.height if height is None else height
    if columns < 1 or rows < 1:
        raise UserError(f"A picture of {columns} x {rows} pixels cannot be drawn; the events or the canvas are empty.")
    shown = _inside(events, columns, rows)
    latest = np.zeros(rows * columns, dtype=np.int64)
    # 2 * (ordinal + 1) + polarity grows with the ordinal alone, and its last bit is the colour.
    order = np.arange(2, 2 * len(shown) + 2, 2, dtype=np.int64) + shown.p
    np.maximum.at(latest, _flat(shown, columns), order)
    palette = (latest > 0).astype(np.uint8) + (latest & 1).astype(np.uint8)
    return np.take(EVENTGPT_COLORS, palette, axis=0).reshape(rows, columns, 3)


def _inside(events: EventArray, width: int, height: int) -> EventArray:
    if events.width <= width and events.height <= height:
        return events
    kept = (events.x < width) & (events.y < height)
    return EventArray(events.x[kept], events.y[kept], events.t_us[kept], events.p[kept])


def _flat(events: EventArray, width: int) -> npt.NDArray[np.intp]:
    flat = events.y.astype(np.intp)
    flat *= width
    flat += events.x
    return flat


class EventCanvas:
    """Pictures of any time window of one recording at one canvas size, fast enough to play.

    Sorts once if the recording is not in time order. Where a pixel fires twice in a window the later event is drawn in
    all runs measured; numpy does not promise it, so models get `render_events`.
    """

    def __init__(
        self, events: EventArray, *, width: int | None = None, height: int | None = None, colors: Picture | None = None
    ) -> None:
        self.width = max(1, events.width if width is None else width)
        self.height = max(1, events.height if height is None else height)
        self.colors: Picture = EVENTGPT_COLORS if colors is None else np.ascontiguousarray(colors, dtype=np.uint8)
        if self.colors.shape != (3, 3):
            raise ValueError(f"colors must be [3, 3] (none, darker, brighter), not {list(self.colors.shape)}")
        kept = _inside(events, self.width, self.height)
        if not kept.is_sorted:
            order = np.argsort(kept.t_us, kind="stable")
            kept = EventArray(kept.x[order], kept.y[order], kept.t_us[order], kept.p[order])
        self._events = kept
        self._palette = np.zeros(self.width * self.height, dtype=np.uint8)

    def count(self, start_us: int, stop_us: int) -> int:
        """Events with start_us <= t < stop_us."""
        return len(self._window(start_us, stop_us))

    def render(self, start_us: int, stop_us: int) -> Picture:
        """Picture uint8 [height, width, 3] of the events with start_us <= t < stop_us."""
        shown = self._window(start_us, stop_us)
        self._palette.fill(0)
        self._palette[_flat(shown, self.width)] = shown.p + 1
        return np.take(self.colors, self._palette, axis=0).reshape(self.height, self.width, 3)

    def _window(self, start_us: int, stop_us: int) -> EventArray:
        start, stop = np.searchsorted(self._events.t_us, [start_us, stop_us], side="left")
        return self._events.slice_count(int(start), max(int(start), int(stop)))
