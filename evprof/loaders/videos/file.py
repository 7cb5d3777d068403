"""Reads exact frames by number from any video file that FFmpeg opens, by presentation time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable, PacketRow
from evprof.loaders.videos.source import PYAV, Choice, VideoFrames, VideoInfo, VideoSource
from evprof.loaders.videos.track import VideoTrack

if TYPE_CHECKING:
    from av import VideoFrame

_NOWHERE = 1 << 62
"""A position after every frame: the next one needs a seek."""

_FRAMES_PER_THREAD = 4
"""With shorter runs a frame thread is idle for most of its life, or decodes frames that are not wanted."""

_LOST_FRAMES = 2
"""A seek loses about this many frames inside the decoder, and one more for each thread."""


class _FrameMissingError(Exception):
    """The table names a frame that the decoder does not output, for example an invisible frame of VP8."""


class VideoFile(VideoSource):
    """One open video: open, `index()` (a pass over packets, no decoding), then `read_uniform` or `frame`.

    A caller can time each of the three. A context manager, not thread-safe.
    """

    decoder = PYAV

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._rotation: int | None = None
        self._frames: Iterator[VideoFrame] = iter(())
        self._current: VideoFrame | None = None
        self._at = _NOWHERE
        self._track = VideoTrack(self.path, readable_file(path))

    def close(self) -> None:
        self._forget_position()
        self._track.close()

    @property
    def bytes_read(self) -> int:
        return self._track.bytes_read

    def index(self) -> FrameTable:
        """Reads the time and the key flag of each packet. Raises UserError for a video without frames or cut short."""
        rows: list[PacketRow] = []
        is_apng = self._track.stream.codec_context.name == "apng"
        with self._track.sentences():
            for packet in self._track.packets():
                if packet.size and not packet.is_discard:
                    # Animated PNGs mark every frame as a key frame, and draw each over the ones before.
                    is_key = packet.is_keyframe and not (rows and is_apng)
                    rows.append(PacketRow(packet.pts, packet.duration, is_key, packet.dts))
        if not rows:
            raise UserError(
                f"{self.path}: the video holds no frames; it is empty or cut short; copy or export it again."
            )
        table = self._make_table(rows)
        if not table.is_timed:
            table = self._counted_frames()
        self._track.check_complete(table)
        self._table = table
        self._forget_position()
        return table

    def info(self) -> VideoInfo:
        table = self.table
        if self._rotation is None:
            self.frame(0)
        rotation = self._rotation or 0
        context = self._track.stream.codec_context
        size = context.width, context.height
        width, height = size[::-1] if rotation % 180 == 90 else size
        duration_ms = table.duration_us / 1000
        problems = ("The file ends in the middle: it was cut short, and its last frames are missing.",)
        return VideoInfo(
            context.name,
            len(table),
            width,
            height,
            duration_ms,
            table.gop_frames,
            rotation,
            problems=problems if self._track.is_cut else (),
        )

    def frame(self, index: int) -> VideoFrame:
        """Frame `index` of the presentation order, as decoded (see `to_rgb`). Raises UserError."""
        for _, frame in self.walk(index):  # noqa: B007 - the last one counts
            pass
        return frame

    def walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        """The frames decoded on the way to frame `index`, which is the last. Raises UserError."""
        self._track.wanted = None
        try:
            yield from self._walk(index)
        except _FrameMissingError:
            raise self._damaged(index) from None

    def to_rgb(self, frame: VideoFrame, *, longest_edge: int | None = None) -> Picture:
        with self._track.sentences():
            edge = max(frame.width, frame.height)
            if longest_edge is not None and edge > longest_edge:
                scale = longest_edge / edge
                width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
                frame = frame.reformat(width=width, height=height, format="rgb24")
            picture: npt.NDArray[Any] = frame.to_ndarray(format="rgb24")
        turns = round((self._rotation or 0) / 90) % 4
        # Frames whose rows are padded come as a view with gaps.
        return np.ascontiguousarray(np.rot90(picture, turns))

    def _read(self, choose: Choice) -> VideoFrames:
        try:
            return self._read_once(choose)
        except _FrameMissingError:
            self._table = self._counted_frames()
        try:
            return self._read_once(choose)
        except _FrameMissingError as missing:
            raise self._damaged(missing.args[0]) from None

    def _read_once(self, choose: Choice) -> VideoFrames:
        table = self.table
        indices = choose(table)
        targets = sorted(set(indices))
        context = self._track.stream.codec_context
        self._check_amount(len(targets), context.width, context.height)
        longest = max(target - table.key_before(target) + 1 for target in targets)
        self._track.use_threads(longest // _FRAMES_PER_THREAD)
        pictures: dict[int, Picture] = {}
        self._track.wanted = {int(table.pts[target]) for target in targets} if table.is_timed else None
        for target in targets:
            with self.parts.part("decode"):
                for _, frame in self._walk(target):  # noqa: B007 - the last one counts
                    pass
            with self.parts.part("colour"):
                pictures[target] = self.to_rgb(frame)
        frames, times_us = [pictures[index] for index in indices], [table.time_us(index) for index in indices]
        return VideoFrames(frames, indices, times_us, self.info(), self.decoder)

    def _walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        if not 0 <= index < len(self.table):
            raise UserError(f"{self.path}: there is no frame {index} among {len(self.table)}.")
        if self._at == index and self._current is not None:
            yield index, self._current
            return
        for start in self._starts(index):
            if start is not None:
                start()
                self._frames = self._track.frames()
                self._at, self._current = -1, None
            for number, frame in self._decode_on():
                if number > index:
                    break
                yield number, frame
                if number == index:
                    return
        raise _FrameMissingError(index)

    def _starts(self, index: int) -> Iterator[Callable[[], None] | None]:
        """The ways to a place where decoding can start, best first. None: the current position."""
        table, track = self.table, self._track
        key = table.key_before(index)
        if self._at < index and (not table.is_timed or key - self._at <= track.threads + _LOST_FRAMES):
            yield None
        if table.is_timed:
            yield partial(track.seek, table.seek_ticks(key))
        track.wanted = None
        yield track.rewind
        # Where neither container nor stream states the reordering, decoders lose some frames at the start.
        yield partial(track.rewind, is_thorough=True)

    def _decode_on(self) -> Iterator[tuple[int, VideoFrame]]:
        """Frames from the current position on, with their numbers; skips frames that are not in the table."""
        table = self.table
        while True:
            with self._track.sentences():
                frame = next(self._frames, None)
            if frame is None:
                self._at = len(table)
                return
            if self._rotation is None:
                self._rotation = int(frame.rotation)
            if not table.is_timed:
                number = self._at + 1
            elif frame.pts is None:
                continue
            else:
                number = int(np.searchsorted(table.pts, frame.pts))
                if number >= len(table) or table.pts[number] != frame.pts:
                    continue
            self._at, self._current = number, frame
            yield number, frame

    def _forget_position(self) -> None:
        self._frames, self._current, self._at = iter(()), None, _NOWHERE

    def _make_table(self, rows: list[PacketRow]) -> FrameTable:
        base = self._track.time_base
        if base is None:
            rows = [PacketRow(None, None, row.is_key) for row in rows]
        return FrameTable.from_packets(rows, base or Fraction(1), self._track.stream.average_rate)

    def _counted_frames(self) -> FrameTable:
        """The table from decoding every frame: slow, for files whose packets do not describe the frames."""
        self._track.rewind()
        self._forget_position()
        with self._track.sentences():
            rows = [PacketRow(frame.pts, frame.duration, frame.key_frame) for frame in self._track.frames()]
        if not rows:
            raise UserError(f"{self.path}: no frame of the video can be decoded; record or export it again.")
        return self._make_table(rows)

    def _damaged(self, index: int) -> UserError:
        return UserError(f"{self.path}: frame {index} cannot be decoded; the file is damaged, copy or export it again.")
