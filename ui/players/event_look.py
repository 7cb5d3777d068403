"""How events are drawn: rendering, and the time that one picture gathers. It uses no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from evprof.loaders.pictures.render import Picture
    from evprof.loaders.pictures.renderings import Painter, RenderingText
    from ui.players.event_windows import EventWindows

AS_MODEL = "eventgpt"
"""The rendering of the model's own frames, which has a palette of its own."""

FADING = ("decay", "time-surface")
"""Renderings in which events fade as they grow old."""

SPANS_US = (1_000, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000)
"""The times that a picture may gather. EventGPT's frames of a 50 ms clip are 10 ms each."""


@dataclass(frozen=True)
class EventLook:
    """A picture shows the events of the last `span_us`, on a dark or a light ground."""

    rendering: str = "polarity"
    span_us: int = 10_000
    is_dark: bool = True

    @property
    def palette(self) -> str:
        return AS_MODEL if self.rendering == AS_MODEL else "dark" if self.is_dark else "light"

    @property
    def words(self) -> str:
        """The time that a picture gathers; where events fade, with its constant: `10 ms · τ 3.3 ms`."""
        if self.rendering not in FADING:
            return span_words(self.span_us)
        from evprof.loaders.pictures.renderings import TAUS_IN_WINDOW

        return f"{span_words(self.span_us)} · τ {self.span_us / TAUS_IN_WINDOW / 1000:.2g} ms"

    @property
    def text(self) -> str:
        """For a settings file; `from_text` is its inverse."""
        return f"{self.rendering} {self.span_us}"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """A look from a settings file; the default for an invalid text."""
        rendering, _, span = text.partition(" ")
        is_known = rendering in rendering_texts() and span in map(str, SPANS_US)
        return cls(rendering, int(span)) if is_known else cls()


def rendering_texts() -> Mapping[str, RenderingText]:
    """Titles and sentences of the renderings, in menu order."""
    from evprof.loaders.pictures import renderings

    return renderings.RENDERING_TEXTS


def span_words(span_us: int) -> str:
    """`10 ms`."""
    return f"{span_us / 1000:g} ms"


class EventArtist:
    """Draws the events of a recording at any moment. Used by one thread only."""

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
        stop_us = min(max(position_us + 1, look.span_us), whole)
        start_us = max(0, stop_us - look.span_us)
        events = windows.between(start_us, stop_us)
        return self._painter_of(look).paint(events, start_us + windows.zero_us, stop_us + windows.zero_us)

    def _painter_of(self, look: EventLook) -> Painter:
        """The painter of the last picture where nothing changed: it draws into buffers of its own."""
        from evprof.loaders.pictures.palette import PALETTES
        from evprof.loaders.pictures.renderings import Painter

        size, palette = (self._windows.width, self._windows.height), PALETTES[look.palette]
        key = (*size, palette, look.rendering)
        if self._painter is None or self._key != key:
            self._painter, self._key = Painter(*size, palette=palette, rendering=look.rendering), key
        return self._painter
