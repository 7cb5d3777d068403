"""Writes pictures as an MP4 video through PyAV, with key frames where they are asked for and times as given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_path
from evprof.loaders.pictures.render import Picture
from evprof.loaders.writers.encoder import Encoding, timed_encoder

if TYPE_CHECKING:
    from av import VideoFrame

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
