"""Pictures of columns: what they hold is what the shapes themselves would cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from ui.timeline.column_picture import (
    channels,
    paint_colors,
    paint_columns,
    paint_ticks,
    stem_edges,
    wide_stem_edges,
)

BLUE = QColor(40, 80, 240)
WIDTH, HEIGHT = 40, 20


def blank(per_px: float) -> QImage:
    """A clear picture of WIDTH x HEIGHT logical px."""
    picture = QImage(int(WIDTH * per_px), int(HEIGHT * per_px), QImage.Format.Format_ARGB32_Premultiplied)
    picture.setDevicePixelRatio(per_px)
    picture.fill(0)
    return picture


def alphas(picture: QImage) -> np.ndarray:
    """Opacity of each pixel, 0…255."""
    return np.array(
        [[picture.pixelColor(x, y).alpha() for x in range(picture.width())] for y in range(picture.height())]
    )


@pytest.mark.parametrize("per_px", [1.0, 2.0])
def test_a_level_line_is_painted_where_it_is_with_its_ground(application: QApplication, per_px: float) -> None:
    picture = blank(per_px)
    painter = QPainter(picture)
    edges = np.repeat([[7.0], [9.0]], int(WIDTH * per_px), axis=1)
    paint_columns(painter, edges, HEIGHT, BLUE, ground=0.2, floor=15.0)
    painter.end()
    found = alphas(picture)
    rows = (np.arange(found.shape[0]) + 0.5) / per_px
    wanted = np.where((rows > 7) & (rows < 9), 255, np.where((rows > 9) & (rows < 15), 51, 0))
    assert np.abs(found - wanted[:, None]).max() <= 1


@given(
    st.lists(st.tuples(st.floats(-6, HEIGHT + 6), st.floats(0, HEIGHT), st.booleans()), min_size=80, max_size=80),
    st.sampled_from([1.0, 1.25, 2.0]),
    st.sampled_from([0.0, 0.13, 0.5]),
    st.floats(0, HEIGHT + 2),
)
def test_every_pixel_shows_the_share_of_it_that_a_column_covers(
    columns: list[tuple[float, float, bool]], per_px: float, ground: float, floor: float
) -> None:
    columns = columns[: int(WIDTH * per_px)]
    upper = np.array([np.nan if is_bare else top for top, _, is_bare in columns])
    lower = upper + np.array([length for _, length, _ in columns])
    picture = blank(per_px)
    with QPainter(picture) as painter:
        paint_columns(painter, np.array([upper, lower]), HEIGHT, BLUE, ground=ground, floor=floor)
    found = alphas(picture)[:, : len(columns)]
    rows = np.arange(found.shape[0])[:, None]
    ends = np.nan_to_num(np.array([upper, lower]) * per_px, nan=10_000.0)
    line = np.clip(np.minimum(rows + 1, ends[1]) - np.maximum(rows, ends[0]), 0, 1)
    below = np.clip(np.minimum(rows + 1, floor * per_px) - np.maximum(rows, ends[1]), 0, 1)
    assert np.abs(found - 255 * (line + (1 - line) * below * ground)).max() <= 1


@pytest.mark.parametrize("per_px", [1.0, 2.0])
def test_stems_stand_on_the_floor(application: QApplication, per_px: float) -> None:
    picture = blank(per_px)
    painter = QPainter(picture)
    edges = stem_edges(np.array([3.0, 9.0]), np.array([5.0, 10.0]), 18.0, int(WIDTH * per_px), per_px)
    paint_columns(painter, edges, HEIGHT, BLUE)
    painter.end()
    covered = (alphas(picture) == 255).sum(axis=0) / per_px
    wanted = np.repeat([13.0 if place == 3 else 8.0 if place == 9 else 0.0 for place in range(WIDTH)], int(per_px))
    assert covered.tolist() == wanted.tolist()


@given(
    st.floats(-3, 3),
    st.lists(st.tuples(st.floats(0, 6), st.floats(0, HEIGHT)), min_size=1, max_size=12),
    st.floats(1, 5),
    st.sampled_from([1.0, 1.5, 2.0]),
)
def test_wide_stems_cover_of_each_pixel_what_rectangles_cover(
    first: float, stems: list[tuple[float, float]], width: float, per_px: float
) -> None:
    # Beside each stem a pixel is free, so that none holds two.
    x = first + np.cumsum([gap + width + 2 for gap, _ in stems])
    tops = HEIGHT - np.array([height for _, height in stems])
    picture = blank(per_px)
    with QPainter(picture) as painter:
        edges, covered = wide_stem_edges((x, tops, width), HEIGHT, int(WIDTH * per_px), per_px)
        paint_columns(painter, edges, HEIGHT, BLUE, covered=covered)
    found = alphas(picture)
    rows, columns = np.arange(found.shape[0])[:, None], np.arange(int(WIDTH * per_px))
    wanted = np.zeros((len(rows), len(columns)))
    for left, top in zip(x * per_px, tops * per_px, strict=True):
        across = np.clip(np.minimum(columns + 1, left + width * per_px) - np.maximum(columns, left), 0, 1)
        wanted += across * np.clip(rows + 1 - top, 0, 1) * (rows < HEIGHT * per_px)
    assert np.abs(found[:, : len(columns)] - 255 * wanted).max() <= 2


@pytest.mark.parametrize("per_px", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("top", [3.0, 3.3])
def test_columns_of_colours_fill_their_room(application: QApplication, per_px: float, top: float) -> None:
    picture = blank(per_px)
    columns = np.zeros((int(WIDTH * per_px), 4), dtype=np.float32)
    columns[::2] = channels([BLUE])
    with QPainter(picture) as painter:
        paint_colors(painter, columns, QRectF(0, top, WIDTH, 11))
    middle = int(8 * per_px)
    assert picture.pixelColor(0, middle) == BLUE
    assert picture.pixelColor(1, middle).alpha() == 0
    found = alphas(picture)
    assert not found[: int(3 * per_px)].any()
    assert not found[int(np.ceil((top + 11) * per_px)) :].any()


@pytest.mark.parametrize("per_px", [1.0, 1.5, 2.0])
def test_ticks_are_sharp_and_cut_at_the_edges(application: QApplication, per_px: float) -> None:
    picture = blank(per_px)
    with QPainter(picture) as painter:
        paint_ticks(painter, np.array([-4.0, 7.5, 20.2, WIDTH + 3.0]), BLUE, QRectF(0, 10, WIDTH, 6))
    row = alphas(picture)[int(12 * per_px)]
    thick = max(1, round(per_px))
    assert np.flatnonzero(row).tolist() == [
        column for left in (7.0, 19.7) for column in range(round(left * per_px), round(left * per_px) + thick)
    ]
    assert set(row[row > 0]) == {255}
