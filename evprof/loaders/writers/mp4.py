"""Writes pictures as an MP4 video through PyAV, with key frames where they are asked for and times as given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_path
from evprof.loaders.pictures.render import Picture

if TYPE_CHECKING:
    from av import Packet, VideoFrame
    from av.container import OutputContainer
    from av.video.stream import VideoStream


X264, MPEG4 = "libx264", "mpeg4"

_LAMBDA = 118
"""FFmpeg's FF_QP2LAMBDA: the unit in which a fixed quantizer is told."""


@dataclass(frozen=True)
class Encoding:
    """How a video is compressed: a key frame every `gop` frames and nowhere else, at most `b_frames` in a row.

    `crf` 0 is lossless, 51 the worst; `preset` one of x264's; `size` is (width, height), None the pictures' own.
    """

    gop: int = 12
    b_frames: int = 2
    crf: int = 20
    size: tuple[int, int] | None = None
    preset: str = "medium"


def encoder_name() -> str:
    import av

    return X264 if X264 in av.codecs_available else MPEG4


def quantizer(crf: int) -> int:
    """MPEG-4's quantizer, 1 to 31, whose steps are as wide as H.264's at this quality.

    A step of H.264 is 0.625 · 2^(QP/6) (ITU-T H.264, 8.6), one of MPEG-4 twice the quantizer (ISO/IEC 14496-2, 7.4.4).
    """
    return min(max(round(0.3125 * 2 ** (crf / 6)), 1), 31)


@dataclass
class TimedEncoder:
    """A stream of a container whose frames are given with their times in ticks of `base` seconds.

    MPEG-4 counts a second in 65,535 ticks at most, so its frames are numbered and get their times as packets.
    """

    stream: VideoStream
    base: Fraction
    is_numbered: bool
    _durations: dict[int, int] = field(default_factory=dict)
    _times: list[int] = field(default_factory=list)

    def encode(self, frame: VideoFrame, pts: int, duration: int) -> list[Packet[Any]]:
        frame.pts, frame.time_base = pts, self.base
        if self.is_numbered:
            frame.pts, frame.time_base = len(self._times), self.stream.codec_context.time_base
        self._times.append(pts)
        self._durations[pts] = duration
        return self._timed(self.stream.encode(frame))

    def flush(self) -> list[Packet[Any]]:
        return self._timed(self.stream.encode())

    def _timed(self, packets: list[Packet[Any]]) -> list[Packet[Any]]:
        for packet in packets:
            if self.is_numbered:
                packet.pts = None if packet.pts is None else self._time_of(packet.pts)
                packet.dts = None if packet.dts is None else self._time_of(packet.dts)
                packet.time_base = self.base
            if packet.pts is not None:
                packet.duration = self._durations.pop(packet.pts, packet.duration)
        return packets

    def _time_of(self, number: int) -> int:
        """Numbers before the first frame are decoding times: B-frames begin that much earlier."""
        return self._times[number] if number >= 0 else self._times[0] + number


def timed_encoder(container: OutputContainer, first: VideoFrame, base: Fraction, encoding: Encoding) -> TimedEncoder:
    """Adds a stream for frames like `first`. Raises UserError for what the encoder cannot do."""
    name = encoder_name()
    if name == MPEG4 and encoding.crf == 0:
        raise UserError(
            "Lossless video (--crf 0) needs the encoder x264, which this installation lacks; choose --crf 1 or more."
        )
    stream = cast("VideoStream", container.add_stream(name, rate=30))
    stream.width, stream.height, stream.pix_fmt = first.width, first.height, "yuv420p"
    context = stream.codec_context
    # The encoder's own choice, slices, gives files that decode faster on several cores than those cameras write.
    context.thread_type = "FRAME"
    context.gop_size = encoding.gop
    context.max_b_frames = encoding.b_frames
    context.color_range, context.colorspace = first.color_range, first.colorspace
    if hasattr(first, "color_primaries"):
        context.color_primaries, context.color_trc = first.color_primaries, first.color_trc
    if name == X264:
        context.time_base = base
        keys = f"keyint={encoding.gop}:min-keyint={encoding.gop}:scenecut=0:open-gop=0"
        context.options = {"crf": str(encoding.crf), "preset": encoding.preset, "x264-params": keys}
    else:
        context.time_base = Fraction(1, 30)
        # A scene that changes would put key frames where they were not asked for.
        fixed = str(quantizer(encoding.crf) * _LAMBDA)
        context.options = {
            "flags": "+qscale+cgop",
            "mpv_flags": "+strict_gop",
            "global_quality": fixed,
            "sc_threshold": "1000000000",
        }
        stream.time_base = base
    return TimedEncoder(stream, base, is_numbered=name == MPEG4)


MOST_TICKS = 1_000_000
"""Finest clock of a file, in ticks per second."""

_LIMITED_RANGE, _BT601 = 1, 6
"""FFmpeg's numbers for what our own conversion from RGB gives."""


def write_mp4(path: Path, frames: Iterable[tuple[int, Any]], time_base: Fraction, encoding: Encoding) -> int:
    """Writes (pts, frame) with increasing pts in ticks of `time_base` seconds; returns how many frames.

    A frame is a uint8 RGB picture [H, W, 3] or a decoded one of PyAV, whose colours then stay untouched where its
    format allows it. Odd sizes are extended by a row or column, which players need. Every frame is one
    slice. Raises OSError, UserError without any frame, and whatever `frames` raises.
    """
    import av

    base = _clock(time_base)
    shown = iter(frames)
    first = next(shown, None)
    if first is None:
        raise UserError(f"{path}: there are no pictures to write; choose another part.")
    count = 0
    # The list of edits, which takes back the delay of B-frames, is counted in this clock, else in ms: short videos
    # of a fast camera would lose their end.
    clock = {"movie_timescale": str(MOST_TICKS)}
    with whole_path(path) as unfinished, av.open(str(unfinished), "w", format="mp4", options=clock) as container:
        picture = _encodable(first[1], encoding.size)
        encoder = timed_encoder(container, picture, base, encoding)
        stream = encoder.stream
        for (pts, frame), duration in _with_durations(chain([first], shown)):
            picture = _encodable(frame, encoding.size)
            if (picture.width, picture.height) != (stream.width, stream.height):
                raise UserError(
                    f"{path}: picture {count} is {picture.width} x {picture.height} and the first one {stream.width} x "
                    f"{stream.height}; a video has one size, so give --size."
                )
            ticks, lasting = round(pts * time_base / base), round(duration * time_base / base)
            container.mux(encoder.encode(picture, ticks, lasting))
            count += 1
        container.mux(encoder.flush())
    return count


def _clock(time_base: Fraction) -> Fraction:
    """The same ticks, or µs where a file could not count them."""
    fits = time_base.denominator <= MOST_TICKS and time_base.numerator < 2**31
    return time_base if fits else Fraction(1, MOST_TICKS)


def _with_durations(frames: Iterator[tuple[int, Any]]) -> Iterator[tuple[tuple[int, Any], int]]:
    """Each frame with the time until the next one; the last lasts as long as the one before it."""
    before: tuple[int, Any] | None = None
    duration = 1
    for frame in frames:
        if before is not None:
            duration = frame[0] - before[0]
            yield before, duration
        before = frame
    if before is not None:
        yield before, duration


def _encodable(frame: Any, size: tuple[int, int] | None) -> VideoFrame:
    """The frame in the encoder's format and size, with even sides."""
    import av

    if isinstance(frame, np.ndarray):
        frame = _from_picture(frame)
    wanted = size or (frame.width, frame.height)
    if frame.format.name != "yuv420p" or wanted[0] % 2 or wanted[1] % 2:
        rgb = frame.reformat(width=wanted[0], height=wanted[1], format="rgb24").to_ndarray()
        return _as_601(_from_picture(rgb))
    if wanted != (frame.width, frame.height):
        frame = frame.reformat(width=wanted[0], height=wanted[1])
    # Whether it was a key frame in its old place must not make it one here.
    frame.pict_type = av.video.frame.PictureType.NONE
    encodable: VideoFrame = frame
    return encodable


def _from_picture(picture: Picture) -> VideoFrame:
    import av

    odd_rows, odd_columns = picture.shape[0] % 2, picture.shape[1] % 2
    if odd_rows or odd_columns:
        picture = np.pad(picture, ((0, odd_rows), (0, odd_columns), (0, 0)), mode="edge")
    return av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")


def _as_601(frame: VideoFrame) -> VideoFrame:
    converted = frame.reformat(format="yuv420p", dst_colorspace=_BT601, dst_color_range=_LIMITED_RANGE)
    converted.color_range, converted.colorspace = _LIMITED_RANGE, _BT601
    return converted
