"""CLIP's preprocessing of several pictures at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engines.stages.pixel_values import ClipTransform
from evprof.loaders.pictures.render import Picture


def pixel_values(transform: ClipTransform, pictures: Sequence[Picture]) -> tuple[NDArray[np.float32], list[Picture]]:
    """T pictures of any sizes -> float32 [T, 3, H, W], and the T cut uint8 pictures it was made of."""
    cuts = [transform.cut(picture) for picture in pictures]
    return transform.stacked(cuts), cuts
