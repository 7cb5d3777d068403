"""What every video can be asked once it is open, whether it is a file or a folder of pictures; it decodes nothing.

Times are µs on the video's own clock, whose zero is the first frame.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evprof.core.errors import UserError
from evprof.core.protocols import UNMEASURED, Closing, PartClock
from evprof.loaders.pictures.frame_folder import uniform_indices
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable

MAX_SIDE = 16_384
MAX_PIXELS = 1 << 26
"""64 megapixels: twice 8K."""

MAX_READ_BYTES = 2 << 30
"""Most that one call returns in decoded frames."""

MOST_FRAMES_ASKED = 1_000_000

_NO_END_US = 1 << 59
"""A window that ends later is one without an end: a sample's from a time on ends 2**60 µs after its zero."""

PYAV, PILLOW = "pyav", "pillow"
"""What decodes video files, and what decodes folders of pictures."""


@dataclass(frozen=True)
class VideoInfo:
    """What a video holds. `width` and `height` are as shown, after `rotation` (degrees counterclockwise).

    `first_time_us` is the first frame's time on the clock of whoever recorded it, None where nothing tells it;
    `problems` are sentences.
    """

    codec: str
    frames: int
    width: int
    height: int
    duration_ms: float
    gop_frames: int
    rotation: int = 0
    first_time_us: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class VideoFrames:
    """Decoded frames, each uint8 [H, W, 3] RGB, with the number and time (since the first frame) of each.

    `decoder` says which library decoded them.
    """

    frames: list[Picture]
    indices: list[int]
    times_us: list[int]
    info: VideoInfo
    decoder: str = field(default=PYAV)


Choice = Callable[[FrameTable], list[int]]
"""Which frames of a table are asked for."""


def check_size(path: str, width: int, height: int) -> None:
    """Raises UserError for pictures that are larger than any that is read."""
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise UserError(
            f"{path}: pictures of {width} x {height} are more than the {MAX_PIXELS >> 20} megapixels allowed; "
            "scale the video down first."
        )


class VideoSource(Closing, ABC):
    """One open video: open, `index()`, then `read_uniform`, `read_at`, or `walk` and `to_rgb`; each can be timed.

    A context manager, not for two threads at once. Every call may raise UserError.
    """

    path: str
    decoder: str
    parts: PartClock = UNMEASURED
    """Who measures: reading tells it "decode" and "colour" (what `to_rgb` does), to and fro as the frames come."""

    _table: FrameTable | None = None

    @property
    def table(self) -> FrameTable:
        """When each frame is shown; `index()` builds it."""
        return self._table if self._table is not None else self.index()

    @property
    @abstractmethod
    def bytes_read(self) -> int:
        """Bytes of packets and pictures that were asked for so far, those of the index included."""

    @abstractmethod
    def index(self) -> FrameTable:
        """Finds out when each frame is shown, without decoding."""

    @abstractmethod
    def info(self) -> VideoInfo:
        """What the video holds; decodes at most one frame."""

    @abstractmethod
    def walk(self, index: int) -> Iterator[tuple[int, Any]]:
        """The frames passed on the way to frame `index`, with their numbers, it being the last; see `to_rgb`."""

    @abstractmethod
    def to_rgb(self, frame: Any, *, longest_edge: int | None = None) -> Picture:
        """uint8 [H, W, 3] of what `walk` gave, upright; scaled down so that no edge exceeds `longest_edge`."""

    def passing(self, index: int, *, most: int, longest_edge: int | None = None) -> dict[int, Picture]:
        """Frame `index`, and up to `most` - 1 of the frames decoded on the way to it, by their numbers."""
        passed = deque(self.walk(index), maxlen=most)
        return {number: self.to_rgb(frame, longest_edge=longest_edge) for number, frame in passed}

    @abstractmethod
    def close(self) -> None:
        """Lets go of the file; may be called twice."""

    @abstractmethod
    def _read(self, choose: Choice) -> VideoFrames:
        """The chosen frames; each is decoded once, however often it is asked for."""

    def read_uniform(self, count: int, window_us: tuple[int, int] | None = None) -> VideoFrames:
        """`count` frames spread evenly (see `uniform_indices`) over all, or over those on show at start <= t < stop.

        The frame that is still on show when the window starts belongs to it. With more asked for than there are, frames
        repeat. Raises UserError for a window outside the video.
        """
        self._check_count(count)
        return self._read(lambda table: self._spread(table, count, window_us))

    def read_at(self, times_us: Sequence[int]) -> VideoFrames:
        """The frame on show at each of these times, in their order; the first or last one outside the video."""
        self._check_count(len(times_us))
        return self._read(lambda table: [table.index_at(int(t_us)) for t_us in times_us])

    def _check_count(self, count: int) -> None:
        if not 1 <= count <= MOST_FRAMES_ASKED:
            raise UserError(
                f"{self.path}: at least 1 video frame and at most {MOST_FRAMES_ASKED:,} can be asked for, not {count}."
            )

    def _spread(self, table: FrameTable, count: int, window_us: tuple[int, int] | None) -> list[int]:
        if window_us is None:
            return [int(index) for index in uniform_indices(len(table), count)]
        shown = table.shown_within(*window_us)
        if not shown:
            start, stop = (at / 1000 for at in window_us)
            # The part from a time to the end has an end that no video reaches.
            part = f"from {start:.12g} to {stop:.12g} ms" if window_us[1] < _NO_END_US else f"from {start:.12g} ms on,"
            raise UserError(
                f"{self.path}: shows no frame {part} counted from its first one; it lasts "
                f"{table.duration_us / 1000:.1f} ms, so choose a part inside it, or correct its offset."
            )
        return [shown.start + int(index) for index in uniform_indices(len(shown), count)]

    def _check_amount(self, frames: int, width: int, height: int) -> None:
        """Raises UserError when so many different frames are more than one call returns."""
        needed = frames * width * height * 3
        if needed > MAX_READ_BYTES:
            raise UserError(
                f"{self.path}: {frames:,} frames of {width} x {height} take {needed / 2**30:.1f} GiB, "
                f"more than the {MAX_READ_BYTES >> 30} GiB allowed; ask for fewer frames."
            )
