"""The part of a sample that the next run takes, and its place on the scrubber's track; it uses no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

PRESETS_US = (50_000, 1_000_000, 5_000_000, 20_000_000)
"""Lengths on offer: what EventGPT was made for, and what people ask about videos."""

LEAST_US = 1_000
"""The shortest part that hands can make."""

MARGIN = 12.0
"""Room at both ends of the track, in px, for the grips of a clip."""

GRIP_PX = 8.0
"""Width of a grip's area."""

BEGIN, END, BODY, NOTHING = "begin", "end", "body", ""
"""Parts of a clip that the mouse can move."""


@dataclass(frozen=True)
class ClipRange:
    """A part of what lasts `whole_us`; `start_us` and `length_us` both None: all of it.

    These are a sample's `start_us` and `duration_us`: either may be None alone, too.
    """

    whole_us: int = 0
    start_us: int | None = None
    length_us: int | None = None

    @property
    def is_all(self) -> bool:
        return self.start_us is None and self.length_us is None

    @property
    def begin_us(self) -> int:
        return self.start_us or 0

    @property
    def end_us(self) -> int:
        """Where it stops: the end of everything, unless a length was chosen."""
        return max(self.whole_us, self.begin_us) if self.length_us is None else self.begin_us + self.length_us

    @property
    def words(self) -> str:
        """`50 ms at 1.20 s`; `all` without a clip."""
        if self.is_all:
            return "all"
        if self.length_us is None:
            return f"from {moment_words(self.begin_us)}"
        return f"{duration_words(self.end_us - self.begin_us)} at {moment_words(self.begin_us)}"

    def all(self) -> Self:
        return type(self)(self.whole_us)

    def from_here(self, position_us: int, length_us: int | None) -> Self:
        """So much from a moment on, moved back as far as the end asks for; None: up to the end."""
        if length_us is None:
            return self._made(position_us, self.whole_us)
        start = max(0, min(position_us, self.whole_us - length_us))
        return self._made(start, min(start + length_us, max(self.whole_us, start)))

    def with_begin(self, position_us: int) -> Self:
        """The left handle goes to a moment; the right one stays."""
        end = min(self.end_us, self.whole_us)
        return self._made(min(position_us, end - LEAST_US), end)

    def with_end(self, position_us: int) -> Self:
        """The right handle goes to a moment; the left one stays."""
        return self._made(self.begin_us, max(position_us, self.begin_us + LEAST_US))

    def moved(self, begin_us: int) -> Self:
        length = self.end_us - self.begin_us
        start = max(0, min(begin_us, self.whole_us - length))
        return self._made(start, start + length)

    def _made(self, start_us: int, stop_us: int) -> Self:
        start, stop = max(0, start_us), min(stop_us, self.whole_us)
        if stop - start < LEAST_US or (start == 0 and stop >= self.whole_us):
            return self.all()
        return type(self)(self.whole_us, start or None, None if stop >= self.whole_us else stop - start)


@dataclass(frozen=True)
class ScrubScale:
    """Sensor time from `start_us` to `stop_us` across `width` px of the track."""

    start_us: int
    stop_us: int
    width: float

    @property
    def room(self) -> float:
        """Pixels between the margins."""
        return max(1.0, self.width - 2 * MARGIN)

    def x(self, time_us: float) -> float:
        """The place of a moment, in px."""
        whole = self.stop_us - self.start_us
        return MARGIN + (self.room * (time_us - self.start_us) / whole if whole > 0 else 0.0)

    def time_us(self, x: float) -> int:
        """The moment at a place, inside the track."""
        share = min(1.0, max(0.0, (x - MARGIN) / self.room))
        return self.start_us + round(share * (self.stop_us - self.start_us))

    def edges(self, clip: ClipRange) -> tuple[float, float]:
        """The ends of a clip in px, at least two px apart."""
        left, right = self.x(clip.begin_us), self.x(min(clip.end_us, self.stop_us))
        return (left, right) if right - left >= 2 else (left - 1, left + 1)

    def part_at(self, x: float, clip: ClipRange) -> str:
        """BEGIN, END, BODY or NOTHING. Grips stand outside of the clip, so that a short one has two."""
        left, right = self.edges(clip)
        if left - GRIP_PX <= x <= left + 1 and not (x >= right and right - left < 4):
            return BEGIN
        if right - 1 <= x <= right + GRIP_PX:
            return END
        return BODY if left < x < right and not clip.is_all else NOTHING


def duration_words(duration_us: int) -> str:
    """`50 ms`, `1 s`, `12.5 s`: as few figures as tell it."""
    if duration_us < 1_000_000:
        return f"{round(duration_us / 1000, 1):g} ms"
    return f"{duration_us / 1_000_000:.4g} s"


def moment_words(time_us: int) -> str:
    """`120 ms`, `3.25 s`."""
    if abs(time_us) < 1_000_000:
        return f"{round(time_us / 1000, 1):g} ms"
    return f"{time_us / 1_000_000:.2f} s"
