"""Tells pictures that were drawn from events from photographs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evprof.core.errors import UserError
from evprof.loaders.pictures.png import read_png
from evprof.loaders.pictures.render import Picture

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
