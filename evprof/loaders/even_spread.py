"""Which frames of a video or folder are taken when a few are asked for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def uniform_indices(total: int, count: int) -> npt.NDArray[np.int64]:
    """`count` frame numbers spread evenly over `total` frames, first and last included.

    The rule is round(linspace(0, total - 1, count)); with more frames asked for than there are, frames repeat. A single
    one is the first.
    """
    indices: npt.NDArray[np.int64] = np.linspace(0, total - 1, count).round().astype(np.int64)
    return indices
