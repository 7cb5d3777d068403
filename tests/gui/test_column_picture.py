"""Pictures of columns: what they hold is what the shapes themselves would cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtWidgets import QApplication

from ui.timeline.column_picture import paint_bars, paint_columns, stem_edges, wide_stem_edges

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


@given(
    st.lists(st.tuples(st.floats(-0.5, 3), st.floats(0.6, 4), st.booleans()), min_size=1, max_size=30),
    st.sampled_from([1.0, 1.5, 2.0]),
)
def test_bars_cover_what_they_are_long(bars: list[tuple[float, float, bool]], per_px: float) -> None:
    gaps, widths = np.array([bar[0] for bar in bars]), np.array([bar[1] for bar in bars])
    # Bars may reach over those beside them, for none is narrower than a pixel.
    x0 = np.maximum(np.cumsum(gaps + widths) - widths, 0)
    is_blue = np.array([bar[2] for bar in bars])
    picture = blank(per_px)
    with QPainter(picture) as painter:
        paint_bars(painter, (x0, widths), [QColor("red"), BLUE], is_blue.astype(np.int64), QRectF(0, 3, WIDTH, 11))
    found = alphas(picture)
    ends = np.minimum(np.minimum(x0 + widths, np.append(x0[1:], np.inf)), WIDTH)
    seen = np.clip(ends - x0, 0, None).sum()
    row = found[int(8 * per_px)].sum() / 255 / per_px
    assert row == pytest.approx(seen, abs=0.01 * WIDTH)
    assert not found[: int(3 * per_px)].any()
    assert not found[int(np.ceil(14 * per_px)) :].any()
