"""The ways people can look at events, and the painter that draws them fast enough to play.

It knows events, colours and pixels, no files. What the models see is drawn by `evprof.loaders.pictures.render`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.loaders.pictures.palette import EVENTGPT_PALETTE, Colors, Palette
from evprof.loaders.pictures.render import Picture, check_canvas, flat_index, inside, render_events


class RenderingText(NamedTuple):
    """A rendering's name for people and one sentence that says what it shows."""

    title: str
    sentence: str


RENDERING_TEXTS: Mapping[str, RenderingText] = MappingProxyType(
    {
        "eventgpt": RenderingText(
            "As EventGPT sees it",
            "Each pixel shows its last event in file order, in the model's own blue and red on white.",
        ),
        "polarity": RenderingText("Polarity", "Each pixel shows whether its last event was darker or brighter."),
        "count": RenderingText("Count", "Each pixel shows how many events it had, on a logarithmic scale."),
        "decay": RenderingText("Decay", "Events add up and fade away, brighter against darker."),
        "time-surface": RenderingText("Time surface", "The fresher a pixel's last event, the stronger its colour."),
    }
)
"""What each rendering is called, in the order they are offered."""

RENDERINGS: tuple[str, ...] = tuple(RENDERING_TEXTS)

_LEVELS = {"count": "amounts", "decay": "signed", "time-surface": "signed"}
"""Which of a palette's tables a rendering's levels look up."""

TAUS_IN_WINDOW = 3
"""Time constants that fit in a window, so that its oldest events have faded to 5 %."""


class Painter:
    """Pictures of one size and one kind, drawn in buffers that are used again. Not for two threads at once.

    "eventgpt" has the model's colours whatever the palette, and an order that is guaranteed; the others may show either
    of two events that share a pixel and a microsecond.
    """

    def __init__(
        self, width: int, height: int, *, palette: Palette = EVENTGPT_PALETTE, rendering: str = "polarity"
    ) -> None:
        check_canvas(width, height)
        if rendering not in RENDERING_TEXTS:
            raise UserError(f"'{rendering}' is no way to draw events; there are {', '.join(RENDERINGS)}.")
        self.width, self.height = width, height
        self.palette, self.rendering = palette, rendering
        self._pixels = width * height
        self._levels = np.zeros(self._pixels, dtype=np.uint8)
        self._colors: Colors = getattr(palette, _LEVELS.get(rendering, "polarities"))
        painters: dict[str, Callable[[EventArray, int, int], Picture]] = {
            "eventgpt": self._eventgpt,
            "polarity": self._polarity,
            "count": self._count,
            "decay": self._decay,
            "time-surface": self._time_surface,
        }
        self._paint = painters[rendering]

    def paint(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        """A new picture, uint8 [height, width, 3], of all `events`, which lie in start_us <= t < stop_us.

        Events outside the canvas are left out.
        """
        return self._paint(inside(events, self.width, self.height), start_us, stop_us)

    def _eventgpt(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        return render_events(events, width=self.width, height=self.height)

    def _polarity(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        self._levels.fill(0)
        self._levels[flat_index(events, self.width)] = events.p + np.uint8(1)
        return self._colored()

    def _count(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        """level = 255 * log(1 + n) / log(1 + most)."""
        counts = self._counts
        counts.fill(0)
        np.add.at(counts, flat_index(events, self.width), 1)
        most = max(1, int(counts.max()))
        scale = np.log1p(np.arange(most + 1)) * (255 / np.log1p(most))
        np.take(scale.astype(np.uint8), counts, out=self._levels, mode="clip")
        return self._colored()

    def _decay(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        """v is the leaky sum; level = 128 + 127 * v / (0.5 + |v|): one fresh event is two thirds of the way."""
        weights = _freshness(events, start_us, stop_us)
        np.negative(weights, out=weights, where=events.p == 0)
        value, scale = self._sums
        value.fill(0)
        np.add.at(value, flat_index(events, self.width), weights)
        np.abs(value, out=scale)
        scale += np.float32(0.5)
        value /= scale
        value *= np.float32(127)
        value += np.float32(128.5)
        self._levels[:] = value
        return self._colored()

    def _time_surface(self, events: EventArray, start_us: int, stop_us: int) -> Picture:
        """level = 128 +- 127 * exp(-age / tau) of a pixel's last event."""
        events = events.in_time_order()
        fresh = _freshness(events, start_us, stop_us)
        np.negative(fresh, out=fresh, where=events.p == 0)
        fresh *= np.float32(127)
        fresh += np.float32(128.5)
        self._levels.fill(128)
        self._levels[flat_index(events, self.width)] = fresh.astype(np.uint8)
        return self._colored()

    # Large arrays come from the operating system afresh each time they are asked for, which takes longer than drawing.

    @cached_property
    def _counts(self) -> npt.NDArray[np.intp]:
        return np.zeros(self._pixels, dtype=np.intp)

    @cached_property
    def _sums(self) -> npt.NDArray[np.float32]:
        return np.zeros((2, self._pixels), dtype=np.float32)

    def _colored(self) -> Picture:
        """The colours of the levels; an array of its own."""
        return np.take(self._colors, self._levels, axis=0).reshape(self.height, self.width, 3)


def _freshness(events: EventArray, start_us: int, stop_us: int) -> npt.NDArray[np.float32]:
    """exp(-(stop - t) / tau) of each event, tau a third of the window."""
    ages = (events.t_us - stop_us).astype(np.float32)
    ages *= np.float32(TAUS_IN_WINDOW / max(1, stop_us - start_us))
    return np.exp(ages, out=ages)
