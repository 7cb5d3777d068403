"""Writes pictures as PNG, and reads them back within bounds."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file, reason
from evprof.loaders.pictures.render import Picture

MAX_SIDE = 16_384
MAX_PIXELS = 1 << 26


def encode_png(picture: Picture, *, longest_edge: int | None = None) -> bytes:
    """PNG bytes of uint8 [H, W, 3]; lossless unless `longest_edge` makes it smaller (Lanczos)."""
    from PIL import Image

    image = Image.fromarray(picture)
    if longest_edge is not None and max(image.size) > longest_edge:
        scale = longest_edge / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        image = image.resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG")
    return buffer.getvalue()


def read_png(path: str | Path) -> Picture:
    """uint8 [H, W, 3] of a PNG file, transparency dropped. Raises UserError; sizes are checked before decoding."""
    from PIL import Image

    found = readable_file(path)
    try:
        with found.open("rb") as file, Image.open(file, formats=["PNG"]) as image:
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
