"""How much moved from picture to picture, told from the small pictures that a session keeps."""

from __future__ import annotations

import io
from functools import lru_cache

import numpy as np
import numpy.typing as npt

LARGEST_SIDE = 1024
"""Sessions keep pictures of at most 256 px; what is far larger is no such picture and is not decoded."""


@lru_cache(maxsize=16)
def motion_of(pictures: tuple[bytes, ...]) -> tuple[float | None, ...]:
    """Of every PNG the mean change of brightness since the one before, in % of the whole range.

    None for the first one, and where one of the two cannot be read or has another size.
    """
    # Repeats of a run saw the same pictures.
    found: list[float | None] = []
    before: npt.NDArray[np.int16] | None = None
    for png in pictures:
        now = _brightness(png)
        if now is None or before is None or now.shape != before.shape:
            found.append(None)
        else:
            found.append(float(np.abs(now - before).mean()) / 2.55)
        before = now
    return tuple(found)


def _brightness(png: bytes) -> npt.NDArray[np.int16] | None:
    """[H, W] from 0 to 255; None for what is no small PNG."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            if max(image.size) > LARGEST_SIDE:
                return None
            return np.asarray(image.convert("L"), dtype=np.int16)
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, OverflowError, Image.DecompressionBombError):
        return None
