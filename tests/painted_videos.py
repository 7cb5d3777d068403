"""Small videos with the frame's number painted into it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

BITS = 10
SQUARE = 16
WIDTH, HEIGHT = BITS * SQUARE, 48


def paint(number: int) -> np.ndarray:
    """A picture whose squares spell `number` in bits, above a moving texture that compresses like film."""
    picture = np.full((HEIGHT, WIDTH, 3), 96, dtype=np.uint8)
    picture[SQUARE:, :, 1] = (np.arange(WIDTH) * 3 + number * 5) % 256
    for bit in range(BITS):
        picture[:SQUARE, bit * SQUARE : (bit + 1) * SQUARE] = 235 if number >> bit & 1 else 16
    return picture


def number_of(picture: np.ndarray) -> int:
    number = 0
    for bit in range(BITS):
        square = picture[4 : SQUARE - 4, bit * SQUARE + 4 : (bit + 1) * SQUARE - 4]
        number |= int(square.mean() > 127) << bit
    return number


def write_video(
    path: Path,
    frames: int,
    *,
    gop: int = 12,
    b_frames: int = 2,
    codec: str = "libx264",
    ticks: Callable[[int], int] | None = None,
    options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Path:
    """Encodes `frames` painted frames, scaled to `size`; `ticks` gives a frame's time in 1/1000 s (30 fps without)."""
    import av

    with av.open(str(path), "w", options=container_options or {}) as container:
        stream: Any = container.add_stream(codec, rate=30, options=options or {})
        (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
        context = stream.codec_context
        context.thread_type = "FRAME"
        context.gop_size = gop
        if b_frames:
            context.max_b_frames = b_frames
        if ticks is not None:
            context.time_base = Fraction(1, 1000)
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(paint(number), format="rgb24")
            frame.pts = number if ticks is None else ticks(number)
            frame.time_base = Fraction(1, 30) if ticks is None else Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
