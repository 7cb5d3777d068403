"""One video track of an open file, through PyAV: packets, seeking, decoded frames, and FFmpeg's errors as sentences.

It knows no frame numbers; see `frame_finder.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.errors import UserError
from evprof.loaders.paths import reason
from evprof.loaders.videos.source import MAX_PIXELS, check_size

if TYPE_CHECKING:
    from av import Packet, VideoFrame, VideoStream
    from av.container import InputContainer

_NOT_VIDEOS = frozenset({"tty", "hls", "dash", "concat", "sdp", "image2", "imf", "lrc", "srt", "webvtt", "ass"})
"""Formats FFmpeg would open that are text, lists of other files or single pictures."""


class VideoTrack:
    """The first real video track of a file, from its start. Not for two threads at once.

    `threads` is how many the decoder may use. Opening decodes nothing, which takes a tenth of FFmpeg's usual time,
    unless `is_thorough`: then FFmpeg decodes a few frames to learn what the file does not say.
    """

    def __init__(
        self,
        name: str,
        file: Path,
        *,
        threads: int,
        is_thorough: bool = False,
    ) -> None:
        self.name = name
        self.bytes_read = 0
        self._is_refused = False
        self._file = file
        self.threads = threads
        self._is_thorough = is_thorough
        self.container: InputContainer
        self.stream: VideoStream
        self._open()

    @property
    def time_base(self) -> Fraction | None:
        """Seconds per tick of the packets' times."""
        return self.stream.time_base

    def packets(self) -> Iterator[Packet[VideoStream]]:
        """The packets from the file's place on, an empty one last."""
        self._renew()
        for packet in self.container.demux(self.stream):
            self.bytes_read += packet.size
            yield packet

    def frames(self, is_skipped: Callable[[int | None], bool] | None = None) -> Iterator[VideoFrame]:
        """Decoded frames in order of presentation from the file's place on; a skipped packet's time is asked about."""
        for packet in self.packets():
            if is_skipped is not None and packet.size and is_skipped(packet.pts):
                continue
            for frame in packet.decode():
                check_size(self.name, frame.width, frame.height)
                yield frame

    def seek(self, ticks: int) -> None:
        """To the key frame at or before a time."""
        self._renew()
        with self.sentences():
            self.container.seek(ticks, stream=self.stream, backward=True)

    def close(self) -> None:
        """Lets go of the file."""
        self.container.close()

    def rewind(self, *, is_thorough: bool | None = None) -> None:
        """To the very start, by opening anew: the only way every container agrees on."""
        self.container.close()
        if is_thorough is not None:
            self._is_thorough = is_thorough
        self._open()

    def another(self, threads: int) -> VideoTrack:
        """The same track opened once more, for another decoder."""
        return VideoTrack(self.name, self._file, threads=threads, is_thorough=self._is_thorough)

    def use_threads(self, threads: int) -> None:
        """How many threads the decoder may use; too late, and without effect, once it has decoded."""
        if not self.stream.codec_context.is_open:
            self.threads = threads
            self.stream.codec_context.thread_count = threads

    def _open(self) -> None:
        self._is_refused = False
        self.container = self._opened()
        try:
            self.stream = self._choose_stream()
            if self.stream.codec_context.width < 1 and not self._is_thorough:
                self.rewind(is_thorough=True)
                return
            self._prepare()
        except UserError:
            self.container.close()
            raise

    def _opened(self) -> InputContainer:
        import av
        from av.container import InputContainer

        # Playlists are not opened even to be refused: they name other files and hosts, and wait for them.
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

    def _prepare(self) -> None:
        context = self.stream.codec_context
        if context.width < 1 or context.height < 1:
            raise UserError(f"{self.name}: the video has no picture size; it is damaged, copy it again.")
        check_size(self.name, context.width, context.height)
        with self.sentences():
            context.skip_frame = "DEFAULT"
            context.thread_type = "AUTO"
            context.thread_count = self.threads
            context.options = {"max_pixels": str(MAX_PIXELS)}

    @contextmanager
    def sentences(self) -> Iterator[None]:
        """Turns what FFmpeg says into one sentence about this file."""
        import av

        try:
            yield
        except (av.FFmpegError, OSError, ValueError, IndexError, MemoryError, OverflowError) as error:
            self._is_refused = True
            raise UserError(
                f"{self.name}: cannot be read as a video ({reason(error)}); "
                "it is damaged, cut short or no video; copy it again, or choose another file."
            ) from None

    def _renew(self) -> None:
        """Opens anew once FFmpeg has refused something: what it left behind is not to be used, it died of that."""
        if self._is_refused:
            self.rewind()
