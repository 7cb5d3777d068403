"""Reads videos through PyAV: what a file holds, and exact frames by number from any container FFmpeg opens.

A frame is found by its presentation time, never by index / rate; between two wanted frames the file either seeks or
decodes on, whichever passes fewer frames. It knows no models and no players.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file, reason
from evprof.loaders.pictures.render import Picture
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import MAX_PIXELS, PYAV, Choice, VideoFrames, VideoInfo, VideoSource
from evprof.loaders.videos.truncation import check_complete

if TYPE_CHECKING:
    from av import VideoFrame, VideoStream
    from av.container import InputContainer

_ONE = Fraction(1)
_REOPEN = -1
_SEEK_COST_FRAMES = 6
"""What a seek costs (emptying the decoder, finding the place), in frames that could be decoded instead."""

_NOT_VIDEOS = frozenset({"tty", "hls", "dash", "concat", "sdp", "image2", "imf", "lrc", "srt", "webvtt", "ass"})
"""Formats FFmpeg would open that are text, lists of other files or single pictures."""


class _FrameMissingError(Exception):
    """The table names a frame the decoder does not give out (VP8's invisible ones, for example)."""


def probe_video(path: str | Path) -> VideoInfo:
    """Codec, frames, size, duration and key-frame distance, without decoding more than one frame. Raises UserError."""
    with VideoFile(path) as video:
        video.index()
        return video.info()


def read_video_frames(path: str | Path, count: int) -> VideoFrames:
    """`count` frames spread evenly over the video (see `uniform_indices`), RGB, turned upright. Raises UserError."""
    with VideoFile(path) as video:
        video.index()
        return video.read_uniform(count)


class VideoFile(VideoSource):
    """One open video: open, `index()` (a pass over packets, no decoding), then `read_uniform` or `frame`.

    The three are separate so that each can be timed. Not for two threads at once. A context manager.
    """

    decoder = PYAV

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._bytes_read = 0
        self._file = readable_file(path)
        self._table: FrameTable | None = None
        self._rotation: int | None = None
        self._container: InputContainer
        self._stream: VideoStream
        self._frames: Iterator[VideoFrame] = iter(())
        self._current: VideoFrame | None = None
        self._at = -1
        self._open()

    def close(self) -> None:
        """Lets go of the file."""
        self._frames = iter(())
        self._current = None
        self._container.close()

    @property
    def table(self) -> FrameTable:
        """The frame table; `index()` builds it."""
        return self._table if self._table is not None else self.index()

    @property
    def bytes_read(self) -> int:
        """Bytes of the packets that were read, for the table and for frames."""
        return self._bytes_read

    def index(self) -> FrameTable:
        """Reads every packet's time and key flag. Raises UserError for a video without frames or cut short."""
        rows: list[tuple[int | None, int | None, bool]] = []
        with self._sentences():
            for packet in self._container.demux(self._stream):
                self._bytes_read += packet.size
                if packet.size and not packet.is_discard:
                    rows.append((packet.pts, packet.duration, packet.is_keyframe))
        if not rows:
            raise UserError(
                f"{self.path}: the video holds no frames; it is empty or cut short; copy or export it again."
            )
        table = self._make_table(rows)
        if not table.is_timed:
            table = self._count_frames()
        check_complete(self.path, self._file, self._container, self._stream, table)
        self._table = table
        # The pass left the file at its end: the first frame asked for seeks.
        self._at = len(table)
        return table

    def info(self) -> VideoInfo:
        """What the file holds; decodes one frame to learn how it is turned."""
        if self._rotation is None:
            self.frame(0)
        context = self._stream.codec_context
        width, height = context.width, context.height
        turned = (self._rotation or 0) % 180 == 90
        return VideoInfo(
            codec=context.name,
            frames=len(self.table),
            width=height if turned else width,
            height=width if turned else height,
            duration_ms=self.table.duration_us / 1000,
            gop_frames=self.table.gop_frames,
            rotation=self._rotation or 0,
        )

    def _read(self, choose: Choice) -> VideoFrames:
        try:
            return self._read_once(choose)
        except _FrameMissingError:
            self._table = self._count_frames()
            self._rewind()
        try:
            return self._read_once(choose)
        except _FrameMissingError:
            raise UserError(f"{self.path}: a frame cannot be decoded; the file is damaged, copy it again.") from None

    def _read_once(self, choose: Choice) -> VideoFrames:
        indices = choose(self.table)
        context = self._stream.codec_context
        self._check_amount(len(set(indices)), context.width, context.height)
        pictures: dict[int, Picture] = {}
        for index in sorted(set(indices)):
            with self.parts.part("decode"):
                frame = self._find(index)
            with self.parts.part("colour"):
                pictures[index] = self.to_rgb(frame)
        return VideoFrames(
            frames=[pictures[index] for index in indices],
            indices=indices,
            times_us=[self.table.time_us(index) for index in indices],
            info=self.info(),
            decoder=self.decoder,
        )

    def frame(self, index: int) -> VideoFrame:
        """Frame `index` of the presentation order, as decoded (see `to_rgb`). Raises UserError when it cannot be."""
        try:
            return self._find(index)
        except _FrameMissingError:
            raise UserError(
                f"{self.path}: frame {index} cannot be decoded; the file is damaged, copy or export it again."
            ) from None

    def walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        """The frames passed on the way to frame `index`, it being the last; raises UserError when it never comes."""
        try:
            yield from self._walk(index)
        except _FrameMissingError:
            raise UserError(f"{self.path}: frame {index} cannot be decoded; the file is damaged.") from None

    def to_rgb(self, frame: VideoFrame, *, longest_edge: int | None = None) -> Picture:
        """uint8 [H, W, 3], upright; scaled down so that no edge is longer than `longest_edge`."""
        self._check_size(frame.width, frame.height)
        with self._sentences():
            edge = max(frame.width, frame.height)
            if longest_edge is not None and edge > longest_edge:
                scale = longest_edge / edge
                width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
                frame = frame.reformat(width=width, height=height, format="rgb24")
            picture: npt.NDArray[Any] = frame.to_ndarray(format="rgb24")
        turns = round((self._rotation or 0) / 90) % 4
        return np.ascontiguousarray(np.rot90(picture, turns)) if turns else picture

    # The way to a frame

    def _find(self, index: int) -> VideoFrame:
        if self._at == index and self._current is not None:
            return self._current
        frame = None
        for _, frame in self._walk(index):  # noqa: B007 - the last one is what is asked for
            pass
        if frame is None:
            raise _FrameMissingError
        return frame

    def _walk(self, index: int) -> Iterator[tuple[int, VideoFrame]]:
        table = self.table
        if not 0 <= index < len(table):
            raise UserError(f"{self.path}: there is no frame {index} among {len(table)}.")
        for start in self._starts(index):
            with self._sentences():
                if start is not None:
                    self._go(start)
            for passed, frame in self._decode_on():
                if passed > index:
                    break
                yield passed, frame
                if passed == index:
                    return
        raise _FrameMissingError

    def _starts(self, index: int) -> Iterator[int | None]:
        """Where to decode from, best first: on from here (None), the key frame before, one more back, anew."""
        table = self.table
        key = table.key_before(index)
        if self._at < index and (not table.is_timed or key - self._at <= _SEEK_COST_FRAMES):
            yield None
        if table.is_timed:
            yield key
            if key > 0:
                yield table.key_before(key - 1)
        yield _REOPEN

    def _go(self, index: int) -> None:
        if index == _REOPEN:
            self._rewind()
            return
        self._container.seek(int(self.table.pts[index]), stream=self._stream, backward=True)
        self._restart()

    def _decode_on(self) -> Iterator[tuple[int, VideoFrame]]:
        """Frames from the decoder's place on, with their numbers; frames the table does not know are passed over."""
        table = self.table
        while True:
            with self._sentences():
                frame = next(self._frames, None)
            if frame is None:
                self._at = len(table)
                return
            self._check_size(frame.width, frame.height)
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

    # The file

    def _open(self) -> None:
        import av
        from av.container import InputContainer

        with self._sentences():
            # Playlists are not opened even to be refused: they name other files and hosts, and wait for them.
            options = {
                "protocol_whitelist": "file",
                "format_whitelist": ",".join(sorted(av.formats_available - _NOT_VIDEOS)),
            }
            opened = av.open(f"file:{self._file.resolve()}", options=options, metadata_errors="replace")
        if not isinstance(opened, InputContainer):
            raise UserError(f"{self.path}: cannot be opened for reading.")
        self._container = opened
        try:
            self._stream = self._choose_stream()
            context = self._stream.codec_context
            if context.width < 1 or context.height < 1:
                raise UserError(f"{self.path}: the video has no picture size; it is damaged, copy it again.")
            self._check_size(context.width, context.height)
            with self._sentences():
                context.thread_type = "AUTO"
                context.options = {"max_pixels": str(MAX_PIXELS)}
        except UserError:
            self._container.close()
            raise
        self._restart()

    def _choose_stream(self) -> VideoStream:
        from av.stream import Disposition

        names = set(self._container.format.name.split(","))
        if names & _NOT_VIDEOS or any(name.endswith("_pipe") for name in names):
            raise UserError(f"{self.path}: is no video (FFmpeg says: {self._container.format.name}); choose another.")
        for stream in self._container.streams.video:
            if not stream.disposition & Disposition.attached_pic:
                if getattr(stream, "codec_context", None) is None:
                    raise UserError(f"{self.path}: its video codec is unknown here; convert it to H.264.")
                return stream
        raise UserError(f"{self.path}: has no video track; give a file with pictures.")

    def _make_table(self, rows: list[tuple[int | None, int | None, bool]]) -> FrameTable:
        base = self._stream.time_base
        if base is None:
            rows = [(None, None, key) for _, _, key in rows]
        return FrameTable.from_packets(rows, base or _ONE, self._stream.average_rate)

    def _count_frames(self) -> FrameTable:
        """The table from really decoded frames: slow, for files whose packets do not say."""
        self._rewind()
        rows: list[tuple[int | None, int | None, bool]] = []
        with self._sentences():
            for frame in self._frames:
                self._check_size(frame.width, frame.height)
                rows.append((frame.pts, frame.duration, frame.key_frame))
        if not rows:
            raise UserError(f"{self.path}: no frame of the video can be decoded; record or export it again.")
        return self._make_table(rows)

    def _rewind(self) -> None:
        """To the very start, by opening anew: the only way every container agrees on."""
        self._container.close()
        self._open()

    def _decoded(self) -> Iterator[VideoFrame]:
        """Frames in order of presentation from the file's place on; None of the packets is left out."""
        for packet in self._container.demux(self._stream):
            self._bytes_read += packet.size
            yield from packet.decode()

    def _restart(self) -> None:
        self._frames = self._decoded()
        self._at = -1
        self._current = None

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turns what FFmpeg says into one sentence about this file."""
        import av

        try:
            yield
        except (av.FFmpegError, OSError, ValueError, IndexError, MemoryError, OverflowError) as error:
            raise UserError(
                f"{self.path}: cannot be read as a video ({reason(error)}); "
                "it is damaged, cut short or no video; copy it again, or choose another file."
            ) from None
