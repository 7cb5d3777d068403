"""What a run is asked about: an event recording, a video, or both, and a prompt. Paths only, never arrays."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.errors import USAGE, UserError
from evprof.core.plain import Plain


@dataclass(frozen=True)
class Sample(Plain):
    """One scene, or a clip of it. At least one of `events_path` and `video_path` is given.

    `events_path`: any event recording, a folder of PNG event frames, or a set of them in a folder
    (`drive/000001_*.png`); `video_path`: anything FFmpeg opens, or a folder of pictures, whose times may stand in
    `video_times_path`, a text with one time in µs for each. `rectify_path`: a DSEC rectification map for the events.
    `name` tells samples of one dataset apart; `reference` is the answer a dataset gives, None where it gives none.

    Both halves lie on one clock, the sample's: its zero is the earliest event, without events the first video frame.
    A clip is `duration_us` from `start_us` on; None: from the beginning, to the end. `video_offset_us` is when the
    video's first frame is shown on that clock.
    """

    events_path: str | None = None
    video_path: str | None = None
    prompt: str = "What are the key elements in this scene?"
    name: str = ""
    reference: str | None = None
    start_us: int | None = None
    duration_us: int | None = None
    video_offset_us: int = 0
    video_times_path: str | None = None
    rectify_path: str | None = None

    @property
    def is_clip(self) -> bool:
        """Whether only a part of the recordings is meant."""
        return self.start_us is not None or self.duration_us is not None

    def validate(self) -> None:
        """Raises UserError (exit code 2) for a clip that cannot be."""
        if self.start_us is not None and not 0 <= self.start_us < _LONGEST_US:
            raise UserError(f"A clip starts at 0 ms or later, not at {self.start_us / 1000:g} ms.", exit_code=USAGE)
        if self.duration_us is not None and not 0 < self.duration_us < _LONGEST_US:
            raise UserError(f"A clip lasts longer than 0 ms, not {self.duration_us / 1000:g} ms.", exit_code=USAGE)
        if abs(self.video_offset_us) >= _LONGEST_US:
            raise UserError(
                f"The video cannot lie {self.video_offset_us / 1e6:g} s from the events; check its offset.",
                exit_code=USAGE,
            )

    def window_us(self, zero_us: int = 0) -> tuple[int, int] | None:
        """The clip [start, stop) on a clock on which the sample's zero is `zero_us`; None without a clip.

        For events `zero_us` is the earliest event's time, for the video's own clock `-video_offset_us`.
        """
        if not self.is_clip:
            return None
        start = self.start_us or 0
        stop = _LONGEST_US if self.duration_us is None else start + self.duration_us
        return zero_us + start, zero_us + stop


_LONGEST_US = 2**60
"""Beyond any recording, and sums still fit in 64 bits."""
