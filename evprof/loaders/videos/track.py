"""One video track of an open file, through PyAV: packets, seeking, decoded frames, and FFmpeg's errors as sentences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from evprof.core.errors import UserError
from evprof.loaders.paths import opened_file, reason
from evprof.loaders.videos.frame_table import FrameTable
from evprof.loaders.videos.source import MAX_PIXELS, check_size

if TYPE_CHECKING:
    from av import Packet, VideoFrame, VideoStream
    from av.container import InputContainer

_NOT_VIDEOS = frozenset({"tty", "hls", "dash", "concat", "sdp", "image2", "imf", "lrc", "srt", "webvtt", "ass"})
"""Formats FFmpeg opens that are text, lists of other files or single pictures."""

_MAX_THREADS = 16
"""FFmpeg's bound for one decoder."""


class VideoTrack:
    """The first video track of a file, from its start. Not thread-safe.

    Opening decodes nothing, which takes a tenth of FFmpeg's usual time. After `rewind(is_thorough=True)` FFmpeg decodes
    a few frames to learn what the file does not state.
    """

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.bytes_read = 0
        self.is_cut = False
        self.wanted: Set[int] | None = None
        """Times of frames that must be decoded; frames that these do not depend on are left out. None: all frames."""
        self.threads = min(usable_threads(), _MAX_THREADS)
        self._is_refused = False
        self._file = file
        self._is_thorough = False
        self.container: InputContainer
        self.stream: VideoStream
        self._open()

    @property
    def time_base(self) -> Fraction | None:
        return self.stream.time_base

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets from the current position on, an empty one last."""
        self._reopen_if_refused()
        for packet in self.container.demux(self.stream):
            self.bytes_read += packet.size
            yield packet

    def frames(self) -> Iterator[VideoFrame]:
        """Decoded frames in presentation order from the current position on; see `wanted`."""
        context = self.stream.codec_context
        # No other H.264 frame depends on those that FFmpeg skips. Other codecs give no such promise.
        can_skip = context.name == "h264"
        for packet in self.packets():
            if can_skip:
                is_skipped = self.wanted is not None and packet.size and packet.pts not in self.wanted
                context.skip_frame = "NONREF" if is_skipped else "DEFAULT"
            for frame in packet.decode():
                check_size(self.name, frame.width, frame.height)
                yield frame

    def seek(self, ticks: int) -> None:
        """To the key frame at or before a time."""
        self._reopen_if_refused()
        with self.sentences():
            self.container.seek(ticks, stream=self.stream, backward=True)

    def close(self) -> None:
        self.container.close()

    def rewind(self, *, is_thorough: bool = False) -> None:
        """To the start, by reopening the file: the only way that works with every container."""
        self.container.close()
        self._is_thorough = self._is_thorough or is_thorough
        self._open()

    def use_threads(self, threads: int) -> None:
        """Sets the number of decoder threads. Has no effect after the first decoded packet."""
        if not self.stream.codec_context.is_open:
            self.threads = max(1, min(threads, usable_threads(), _MAX_THREADS))
            self.stream.codec_context.thread_count = self.threads

    def check_complete(self, table: FrameTable) -> None:
        """Raises UserError when the file states more bytes, or a longer duration, than it holds.

        Sets `is_cut` for a live recording or fragments that end in the middle: what is there is whole. Formats that
        state nothing (transport streams, bare H.264) cannot be checked. Call this after a pass over all packets: some
        containers keep their index at the end.
        """
        size = self._file.stat().st_size
        stated = max((entry.pos + entry.size for entry in self.stream.index_entries), default=0)
        with opened_file(self._file) as opened:
            head = opened.read(8)
            kinds = self.container.format.name
            boxes = list(_boxes(opened, size)) if "mp4" in kinds else []
            ends = [end for _, end in boxes] + ([_matroska_end(opened, size)] if "matroska" in kinds else [])
        self.is_cut = max(ends, default=0) > size
        is_fragmented = any(kind == b"moof" for kind, _ in boxes)
        if head.startswith(b"RIFF"):
            stated = max(stated, int.from_bytes(head[4:], "little"))
        if stated > size and not (self.is_cut and is_fragmented):
            raise UserError(
                f"{self.name}: the video is cut short: it states {stated:,} bytes and has {size:,}; copy it again."
            )
        # Matroska writes its duration when it is closed. An audio track can be longer than the video track.
        container = self.container
        if "matroska" in kinds and len(container.streams) == 1 and table.is_timed and container.duration:
            start_us = max(0, round(int(table.pts[0]) * table.time_base * 1_000_000))
            missing_us = container.duration - table.duration_us - start_us
            if missing_us > max(container.duration // 20, 250_000):
                raise UserError(
                    f"{self.name}: the video is cut short: it states {container.duration / 1e6:.1f} s and holds "
                    f"{table.duration_us / 1e6:.1f} s; copy it again."
                )

    @contextmanager
    def sentences(self) -> Iterator[None]:
        """Turns FFmpeg's errors into one sentence about this file."""
        import av

        try:
            yield
        except (av.FFmpegError, OSError, ValueError, IndexError, MemoryError, OverflowError) as error:
            self._is_refused = True
            raise UserError(
                f"{self.name}: cannot be read as a video ({reason(error)}); "
                "it is damaged, cut short or no video; copy it again, or choose another file."
            ) from None

    def _open(self) -> None:
        self._is_refused = False
        self.container = self._opened()
        try:
            self.stream = self._choose_stream()
            context = self.stream.codec_context
            if context.width < 1 and not self._is_thorough:
                self.rewind(is_thorough=True)
                return
            if context.width < 1 or context.height < 1:
                raise UserError(f"{self.name}: the video has no picture size; it is damaged, copy it again.")
            check_size(self.name, context.width, context.height)
            with self.sentences():
                context.skip_frame = "DEFAULT"
                context.thread_type = "AUTO"
                context.thread_count = self.threads
                context.options = {"max_pixels": str(MAX_PIXELS)}
        except UserError:
            self.container.close()
            raise

    def _opened(self) -> InputContainer:
        import av
        from av.container import InputContainer

        # Playlists name other files and hosts. FFmpeg does not open them.
        options = {
            "protocol_whitelist": "file",
            "format_whitelist": ",".join(sorted(av.formats_available - _NOT_VIDEOS)),
        }
        if not self._is_thorough:
            options["skip_frame"] = "all"
        # PyAV 19 accepts metadata that is not UTF-8. Earlier versions refuse the file without this argument.
        older: dict[str, Any] = {} if int(av.__version__.split(".")[0]) >= 19 else {"metadata_errors": "replace"}
        with self.sentences():
            opened = av.open(f"file:{self._file.resolve()}", options=options, **older)
        if not isinstance(opened, InputContainer):
            raise UserError(f"{self.name}: cannot be opened for reading.")
        return opened

    def _choose_stream(self) -> VideoStream:
        from av.stream import Disposition

        names = set(self.container.format.name.split(","))
        if names & _NOT_VIDEOS or any(name.endswith("_pipe") for name in names):
            raise UserError(f"{self.name}: is no video (FFmpeg says: {self.container.format.name}); choose another.")
        for stream in self.container.streams.video:
            if not stream.disposition & Disposition.attached_pic:
                if getattr(stream, "codec_context", None) is None:
                    raise UserError(f"{self.name}: its video codec is unknown here; convert it to H.264.")
                return stream
        raise UserError(f"{self.name}: has no video track; give a file with pictures.")

    def _reopen_if_refused(self) -> None:
        """FFmpeg can crash when it continues after an error."""
        if self._is_refused:
            self.rewind()


def usable_threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int]]:
    """The top-level boxes of an MP4: their kinds, and where each ends by its own length."""
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length = int.from_bytes(head[:4], "big")
        length = int.from_bytes(head[8:], "big") if length == 1 else length
        if length < 8:  # 0: up to the end of the file
            return
        at += length
        yield head[4:8], at


_SEGMENT, _CLUSTER = 0x18538067, 0x1F43B675


def _matroska_end(file: BinaryIO, size: int) -> int:
    """Where the last element of a Matroska file ends. What is recorded live states no size of segment and clusters."""
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(12)
        id_bytes, size_bytes = 9 - head[0].bit_length(), 0
        if id_bytes < len(head):
            size_bytes = 9 - head[id_bytes].bit_length()
        begin = at + id_bytes + size_bytes
        if not size_bytes or id_bytes > 4 or size_bytes > 8:
            break  # no element: another damage than a missing end
        element = int.from_bytes(head[:id_bytes], "big")
        length = int.from_bytes(head[id_bytes : id_bytes + size_bytes], "big") & ((1 << 7 * size_bytes) - 1)
        is_open = length == (1 << 7 * size_bytes) - 1
        if is_open and element not in (_SEGMENT, _CLUSTER):
            break
        at = begin if is_open else begin + length
    return at
