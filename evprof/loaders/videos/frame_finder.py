"""Finds frames by number in one open track: decodes on, or seeks first, whichever passes fewer frames."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.track import VideoTrack

if TYPE_CHECKING:
    from av import VideoFrame

_FROM_START = -1


class FrameMissingError(Exception):
    """The table names a frame the decoder does not give out (VP8's invisible ones, for example)."""


class FrameFinder:
    """A track, its table, and where its decoder is. Not for two threads at once.

    `skip` are the times (ticks) of packets that need not be decoded at the moment: no wanted frame, nor anything else
    that is decoded, depends on them.
    """

    def __init__(self, track: VideoTrack, table: FrameTable) -> None:
        self.track = track
        self.rotation: int | None = None
        self.skip: frozenset[int] = frozenset()
        self._table = table
        self._frames: Iterator[VideoFrame] = iter(())
        self._current: VideoFrame | None = None
        # Whoever made the table left the file at its end: the first frame asked for seeks.
        self._at = len(table)
        self._seeks = self._seek_ns = self._decoded = self._decode_ns = 0

    def find(self, index: int) -> VideoFrame:
        """Frame `index` of the presentation order. Raises FrameMissingError."""
        if self._at == index and self._current is not None:
            return self._current
        frame = None
        for _, frame in self.walk(index):  # noqa: B007 - the last one is what is asked for
            pass
        if frame is None:
            raise FrameMissingError
        return frame

    def walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        """The frames passed on the way to frame `index`, it being the last. Raises FrameMissingError."""
        for start in self._starts(index):
            if start is not None:
                self._go(start)
            for passed, frame in self._decode_on():
                if passed > index:
                    break
                yield passed, frame
                if passed == index:
                    return
            # What was thought superfluous may not have been.
            self.skip = frozenset()
        raise FrameMissingError

    def close(self) -> None:
        """Lets go of the decoder and the file."""
        self._frames = iter(())
        self._current = None
        self.track.close()

    def _starts(self, index: int) -> Iterator[int | None]:
        """Where to decode from, best first: on from here (None), the key frame before, one more back, the start."""
        table = self._table
        key = table.key_before(index)
        if self._at < index and (not table.is_timed or key - self._at <= self._seek_frames()):
            yield None
        if table.is_timed:
            yield key
            if key > 0:
                yield table.key_before(key - 1)
        yield _FROM_START

    def _seek_frames(self) -> float:
        """What a seek costs in frames that could be decoded instead: those in the decoder are lost, and it takes time.

        The time is measured: nothing in MP4, many frames where FFmpeg searches the file.
        """
        in_flight = self._table.reorder_frames + self.track.threads - 1
        if not self._seeks or not self._decode_ns:
            return in_flight + 1
        return in_flight + (self._seek_ns / self._seeks) / (self._decode_ns / self._decoded)

    def _go(self, index: int) -> None:
        if index == _FROM_START:
            self.track.rewind()
        else:
            start = perf_counter_ns()
            self.track.seek(self._table.seek_ticks(index))
            self._seek_ns += perf_counter_ns() - start
            self._seeks += 1
        self._frames = self.track.frames(self._is_skipped)
        self._at = -1
        self._current = None

    def _is_skipped(self, pts: int | None) -> bool:
        return pts in self.skip

    def _decode_on(self) -> Iterator[tuple[int, VideoFrame]]:
        """Frames from the decoder's place on, with their numbers; frames the table does not know are passed over."""
        table = self._table
        while True:
            start = perf_counter_ns()
            with self.track.sentences():
                frame = next(self._frames, None)
            if frame is None:
                self._at = len(table)
                return
            self._decode_ns += perf_counter_ns() - start
            self._decoded += 1
            if self.rotation is None:
                self.rotation = int(frame.rotation)
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
