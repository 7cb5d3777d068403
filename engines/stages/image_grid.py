"""Several frames as one picture of equal tiles, for models that were made to read one image.

Source of the idea: Kim et al., "An Image Grid Can Be Worth a Video" (2024). It knows pictures, no model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engines.stages.pixel_values import ClipTransform
from evprof.loaders.pictures.render import Picture


def grid_columns(frames: int) -> int:
    """Columns, and at most as many rows, of a grid with room for `frames` tiles: ceil(sqrt(frames))."""
    return math.isqrt(frames - 1) + 1


def tile_frames(frames: Sequence[Picture], transform: ClipTransform) -> Picture:
    """T frames of any sizes -> one square picture, row after row, black where no frame is left.

    Each tile is what the tower would see of its frame alone, made smaller: so nothing of a tile is lost when the
    transform cuts the square picture in turn.
    """
    columns = grid_columns(len(frames))
    edge = max(1, transform.crop[0] // columns)
    # The frame's share that a crop of the whole picture would show, as one tile.
    shortest = max(edge, round(transform.shortest_edge * edge / transform.crop[0]))
    tile = ClipTransform(shortest, (edge, edge))
    grid: Picture = np.zeros((columns * edge, columns * edge, 3), dtype=np.uint8)
    for index, frame in enumerate(frames):
        top, left = index // columns * edge, index % columns * edge
        grid[top : top + edge, left : left + edge] = tile.cut(frame)
    return grid
