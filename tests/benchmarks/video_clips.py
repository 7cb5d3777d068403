"""Clips for `run.py video`: H.264, or MPEG-4 without x264, with each frame's number painted in to check readers.

One slice per frame, as ordinary encoders write it: PyAV's own default gives two, which decode faster than real files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.loaders.pictures.render import Picture

RATE = 30

_BITS = 10
_MARGIN = 160
"""How far the scene drifts, in pixels to each side."""


@dataclass(frozen=True)
class Clip:
    """What is encoded: `frames` pictures of `width` x `height`, a key frame every `gop`.

    `is_vfr`: the frames come at uneven times.
    """

    name: str
    width: int
    height: int
    frames: int
    gop: int
    suffix: str = ".mp4"
    is_vfr: bool = False

    @property
    def seconds(self) -> float:
        return self.frames / RATE


CLIPS = (
    *(Clip(f"480p 10 s gop {gop}", 640, 480, 300, gop) for gop in (12, 30, 250)),
    Clip("480p 10 s gop 30 vfr", 640, 480, 300, 30, is_vfr=True),
    Clip("480p 10 s gop 30 mkv", 640, 480, 300, 30, suffix=".mkv"),
    *(Clip(f"720p 30 s gop {gop}", 1280, 720, 900, gop) for gop in (12, 30, 250)),
)


def write_clip(path: Path, clip: Clip) -> None:
    """Encodes a clip: preset medium, crf 20, B-frames. Raises OSError and what FFmpeg raises."""
    import av

    from evprof.loaders.writers.mp4 import Encoding, timed_encoder

    scene = _scene(clip.width, clip.height)
    tick = Fraction(1, 1000) if clip.is_vfr else Fraction(1, RATE)
    with av.open(str(path), "w") as container:
        encoder = None
        for number in range(clip.frames):
            frame = av.VideoFrame.from_ndarray(_painted(scene, number, clip.width, clip.height), format="rgb24")
            encoder = encoder or timed_encoder(container, frame, tick, Encoding(clip.gop, b_frames=3))
            pts = number * 33 + number % 7 * 4 if clip.is_vfr else number
            container.mux(encoder.encode(frame, pts, 33 if clip.is_vfr else 1))
        if encoder is not None:
            container.mux(encoder.flush())


def number_of(picture: npt.NDArray[Any]) -> int:
    """The number painted into a decoded frame [H, W, 3]."""
    size = picture.shape[1] // 16
    squares = picture[: size * 3 // 4, : _BITS * size].reshape(size * 3 // 4, _BITS, size, 3)
    bits: Sequence[float] = squares[size // 4 :, :, size // 4 : size * 3 // 4].mean(axis=(0, 2, 3)).tolist()
    return sum(1 << place for place, mean in enumerate(bits) if mean > 127)


def _scene(width: int, height: int) -> Picture:
    """Soft blots with the noise of a sensor, larger than a picture."""
    from PIL import Image

    random = np.random.default_rng(7)
    size = width + 2 * _MARGIN, height + 2 * _MARGIN
    blots = random.integers(0, 255, (size[1] // 8, size[0] // 8, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(blots).resize(size, Image.Resampling.BICUBIC), dtype=np.int16)
    noisy = smooth + random.integers(-10, 11, (size[1], size[0], 1), dtype=np.int16)
    scene: Picture = np.clip(noisy, 0, 255).astype(np.uint8)
    return scene


def _painted(scene: Picture, number: int, width: int, height: int) -> Picture:
    """The scene as the camera drifts, something that crosses it, and the number in squares of black and white."""
    left = round(_MARGIN * (1 + 0.9 * np.sin(number / 40)))
    top = round(_MARGIN * (1 + 0.9 * np.cos(number / 55)))
    picture: Picture = scene[top : top + height, left : left + width].copy()
    edge = number * 7 % (width - 80)
    picture[height // 2 : height // 2 + 80, edge : edge + 80] = scene[:80, number % 200 : number % 200 + 80]
    size = width // 16
    for bit in range(_BITS):
        picture[:size, bit * size : (bit + 1) * size] = 235 if number >> bit & 1 else 16
    return picture
