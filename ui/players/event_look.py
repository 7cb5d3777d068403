"""How events are drawn: rendering, colours, and the time that one picture gathers. It uses no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from evprof.core.events import EventArray
    from evprof.loaders.pictures.render import Picture
    from evprof.loaders.pictures.renderings import Painter, RenderingText
    from ui.players.event_windows import EventWindows

AS_MODEL = "eventgpt"
"""The rendering of the model's own frames: its palette is fixed."""

FADING = ("decay", "time-surface")
"""Renderings in which events fade as they grow old."""

BY_THEME = "theme"
"""The palette that follows the window's theme."""

SPANS_US = (1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000)
"""What a picture may gather, by time. EventGPT's frames of a 50 ms clip are 10 ms each."""

COUNTS = (5_000, 25_000, 100_000)
"""What a picture may gather, by number."""

_LEAST_US, _MOST_US = 100, 10_000_000
_MOST_COUNT = 10_000_000


@dataclass(frozen=True)
class EventLook:
    """`count` None: a picture shows the events of the last `span_us`; otherwise the last `count` events."""

    rendering: str = "polarity"
    palette: str = BY_THEME
    span_us: int = 10_000
    count: int | None = None

    @property
    def is_as_model(self) -> bool:
        return self.rendering == AS_MODEL

    def in_theme(self, is_dark: bool) -> Self:
        if self.is_as_model:
            return replace(self, palette=AS_MODEL)
        return replace(self, palette="dark" if is_dark else "light") if self.palette == BY_THEME else self

    @property
    def words(self) -> str:
        """How much a picture gathers: `10 ms`, `25 k events`; where events fade, how fast: `10 ms · τ 3.3 ms`."""
        if self.count is not None:
            return count_words(self.count)
        if self.rendering not in FADING:
            return span_words(self.span_us)
        from evprof.loaders.pictures.renderings import TAUS_IN_WINDOW

        return f"{span_words(self.span_us)} · τ {self.span_us / TAUS_IN_WINDOW / 1000:.2g} ms"

    @property
    def text(self) -> str:
        """For a settings file; `from_text` is its inverse."""
        return f"{self.rendering} {self.palette} {self.span_us} {self.count or 0}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """What a settings file says; the defaults where that means nothing."""
        words = text.split()
        if len(words) < 4 or not words[2].isdecimal() or not words[3].isdecimal():
            return cls()
        from evprof.loaders.pictures.palette import PALETTES

        rendering, palette, span_us, count = words[0], words[1], int(words[2]), int(words[3])
        if rendering not in rendering_texts() or palette not in (BY_THEME, *PALETTES):
            return cls()
        if not _LEAST_US <= span_us <= _MOST_US or count > _MOST_COUNT:
            return cls()
        return cls(rendering, palette, span_us, count or None)


def rendering_texts() -> Mapping[str, RenderingText]:
    """What each way of drawing is called here, in the order they are offered."""
    from evprof.loaders.pictures import renderings

    return renderings.RENDERING_TEXTS


def span_words(span_us: int) -> str:
    """`10 ms`."""
    return f"{span_us / 1000:g} ms"


def count_words(count: int) -> str:
    """`25 k events`."""
    return f"{count / 1000:g} k events" if count >= 1000 else f"{count:,} events"


class EventArtist:
    """Draws the events of a recording at any moment as a person wants to see them. Used by one thread only."""

    def __init__(self, windows: EventWindows) -> None:
        self._windows = windows
        self._painter: Painter | None = None
        self._key: object = None

    def picture_at(self, position_us: int, look: EventLook) -> Picture:
        """The picture whose events end at a moment since the recording's beginning; near that, of its first events.

        Raises UserError.
        """
        windows = self._windows
        whole = windows.duration_us + 1
        stop_us = min(max(0, position_us) + 1, whole)
        if look.count is None:
            stop_us = min(max(stop_us, look.span_us), whole)
            start_us = max(0, stop_us - look.span_us)
            events = windows.between(start_us, stop_us)
        else:
            events = self._counted(look.count, stop_us, whole)
            start_us = int(events.t_us[0]) - windows.zero_us if len(events) else 0
            stop_us = int(events.t_us[-1]) - windows.zero_us + 1 if len(events) else stop_us
        return self._painter_of(look).paint(events, start_us + windows.zero_us, stop_us + windows.zero_us)

    def _counted(self, count: int, stop_us: int, whole_us: int) -> EventArray:
        """The last `count` events before a moment; the recording's first ones where there are fewer."""
        events = self._windows.last(count, stop_us)
        while len(events) < count and stop_us < min(whole_us, _MOST_US):
            stop_us = min(whole_us, max(2 * stop_us, _LEAST_US))
            events = self._windows.between(0, stop_us).slice_count(0, count)
        return events

    def _painter_of(self, look: EventLook) -> Painter:
        """The painter of the last picture where nothing changed: it draws into buffers of its own."""
        from evprof.loaders.pictures.palette import PALETTES
        from evprof.loaders.pictures.renderings import Painter

        size, palette = (self._windows.width, self._windows.height), PALETTES[look.in_theme(is_dark=True).palette]
        key = (*size, palette, look.rendering)
        if self._painter is None or self._key != key:
            self._painter, self._key = Painter(*size, palette=palette, rendering=look.rendering), key
        return self._painter
