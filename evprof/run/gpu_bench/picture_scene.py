"""A sample that needs no video decoder: bundled events, and beside them a folder of pictures of about their length."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_sample

FRAMES, WIDTH, HEIGHT = 16, 320, 240


def write_picture_scene(folder: Path) -> Sample:
    """Writes FRAMES PNGs into `folder`, which is made: a bright square that moves over a gradient. Raises OSError."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    across, down = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    for number in range(FRAMES):
        picture = np.stack([across * 255 // WIDTH, down * 255 // HEIGHT, np.full_like(across, 64)], -1).astype(np.uint8)
        left = number * (WIDTH - 48) // FRAMES
        picture[96:144, left : left + 48] = (240, 220, 40)
        Image.fromarray(picture).save(folder / f"{number:03}.png")
    sample = bundled_sample()
    return replace(sample, video_path=str(folder), name=f"{sample.name}, pictures")
