"""Which encoder videos are written with, and what it is told: x264 where PyAV has it, else FFmpeg's own MPEG-4.

PyAV's own wheel has x264. The one that evprof's bundle holds was built without it, because x264 is under the GPL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from evprof.core.errors import UserError

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
    """X264 or MPEG4, whichever this PyAV has."""
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
        """The packets that are ready once this frame came."""
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
