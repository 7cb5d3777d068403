"""Where moments lie on the scrub track, and what of a clip is under the pointer; it knows no widget."""

from __future__ import annotations

from dataclasses import dataclass

from ui.players.clip_range import ClipRange

MARGIN = 12.0
"""Room at both ends of the track, in px: grips stand outside of what they hold."""

GRIP_PX = 8.0
"""Width of what can be grabbed."""

BEGIN, END, BODY, NOTHING = "begin", "end", "body", ""
"""Parts of a clip that hands can move."""


@dataclass(frozen=True)
class ScrubScale:
    """Sensor time from `start_us` to `stop_us` across `width` px."""

    start_us: int
    stop_us: int
    width: float

    @property
    def room(self) -> float:
        """Pixels between the margins."""
        return max(1.0, self.width - 2 * MARGIN)

    def x(self, time_us: float) -> float:
        """Where a moment lies, in px."""
        whole = self.stop_us - self.start_us
        if whole <= 0:
            return MARGIN
        return MARGIN + self.room * (time_us - self.start_us) / whole

    def time_us(self, x: float) -> int:
        """The moment at a place, inside the track."""
        share = min(1.0, max(0.0, (x - MARGIN) / self.room))
        return self.start_us + round(share * (self.stop_us - self.start_us))

    def edges(self, clip: ClipRange) -> tuple[float, float]:
        """The ends of a clip in px, told apart even where it is shorter than a pixel."""
        left, right = self.x(clip.begin_us), self.x(min(clip.end_us, self.stop_us))
        return (left, right) if right - left >= 2 else (left - 1, left + 1)

    def part_at(self, x: float, clip: ClipRange) -> str:
        """BEGIN, END, BODY or NOTHING. Grips stand outside of the clip, so that both can be had of a short one."""
        left, right = self.edges(clip)
        if left - GRIP_PX <= x <= left + 1 and not (x >= right and right - left < 4):
            return BEGIN
        if right - 1 <= x <= right + GRIP_PX:
            return END
        return BODY if left < x < right and not clip.is_all else NOTHING
