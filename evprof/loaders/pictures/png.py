"""Writes pictures as PNG, and reads them back within bounds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.paths import opened_file, readable_file, reason
from evprof.loaders.pictures.render import Picture

if TYPE_CHECKING:
    from PIL.Image import Resampling

_BACKGROUND_SHARE = 0.5
"""Least share of one exact colour in a drawn event frame: photographs have noise, event frames a background."""


def is_event_frame(picture: Picture) -> bool:
    """Whether a picture uint8 [H, W, 3] is drawn from events: half of it or more has one and the same colour.

    A blank picture is one, too; a photograph of a dark night has noise and is none.
    """
    colours = picture.reshape(-1, 3).astype(np.uint32)
    packed = colours[:, 0] << 16 | colours[:, 1] << 8 | colours[:, 2]
    return bool(np.unique(packed, return_counts=True)[1].max() >= _BACKGROUND_SHARE * len(packed))


def is_event_frame_file(path: Path) -> bool:
    """Whether a file is a PNG of an event frame; one that cannot be read is none."""
    if path.suffix.lower() != ".png":
        return False
    try:
        return is_event_frame(read_png(path))
    except UserError:
        return False


MAX_SIDE = 16_384
MAX_PIXELS = 1 << 26


def encode_png(picture: Picture, *, longest_edge: int | None = None) -> bytes:
    """PNG bytes of uint8 [H, W, 3]; lossless unless `longest_edge` makes it smaller (Lanczos)."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(scaled_down(picture, longest_edge, Image.Resampling.LANCZOS)).save(buffer, format="PNG")
    return buffer.getvalue()


def scaled_down(picture: Picture, longest_edge: int | None, way: Resampling) -> Picture:
    """The picture itself, or scaled so that its longer side is `longest_edge` pixels long where it was longer."""
    height, width = picture.shape[:2]
    if longest_edge is None or max(width, height) <= longest_edge:
        return picture
    from PIL import Image

    scale = longest_edge / max(width, height)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.array(Image.fromarray(picture).resize(size, way))


def read_png(path: str | Path) -> Picture:
    """uint8 [H, W, 3] of a PNG file, transparency dropped. Raises UserError; sizes are checked before decoding."""
    from PIL import Image

    found = readable_file(path)
    try:
        with opened_file(found) as file, Image.open(file, formats=["PNG"]) as image:
            if max(image.size) > MAX_SIDE or image.width * image.height > MAX_PIXELS:
                raise UserError(
                    f"{path}: a picture of {image.width} x {image.height} is more than the {MAX_PIXELS >> 20} "
                    "megapixels allowed; scale it down first."
                )
            return np.array(image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError, OverflowError) as error:
        raise UserError(f"{path}: cannot be read as a PNG ({reason(error)}); copy or export it again.") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(f"{path}: the picture is far too large to be an event frame.") from None
