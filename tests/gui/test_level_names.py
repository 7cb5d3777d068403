"""Names at the ends of a lane's lines: each whole, in the lane, and apart from the others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from ui.state.run_controller import RunController
from ui.timeline.level_lane import KvLane, LevelSeries
from ui.timeline.timeline_view import TimelineView

APART_PX = 2.0
NAMES = ("A · EventGPT", "B · Video-LLaVA", "draft in B · EventGPT")


class WatchedPainter(QPainter):
    """Keeps where names are given a ground."""

    def __init__(self, image: QImage) -> None:
        super().__init__(image)
        self.grounds: list[QRectF] = []

    def fillRect(self, *args: object) -> None:
        """As Qt's."""
        if (
            isinstance(args[0], QRectF)
            and isinstance(args[1], QColor)
            and args[1].alpha() > 128
            and args[0].width() > 2
        ):
            self.grounds.append(QRectF(args[0]))
        super().fillRect(*args)  # type: ignore[call-overload]


@pytest.fixture
def lane(make_timeline: Callable[..., TimelineView], controller: RunController) -> KvLane:
    view = make_timeline(controller, size=(1280, 760), clock=lambda: 0)
    kv = next(lane for lane in view.lanes if isinstance(lane, KvLane))
    kv.resize(kv.width(), KvLane.lane_height_px)
    return kv


def names_of(
    lane: KvLane, levels: tuple[float, ...], ends: tuple[float, ...], scale: int, path: str = ""
) -> list[QRectF]:
    """Where names stand that end at these parts of the visible time, on these levels."""
    seen = lane.scene.scale
    lines = [
        LevelSeries(
            name,
            np.array([seen.start_ns], dtype=np.int64),
            np.array([level]),
            round(seen.start_ns + end * (seen.end_ns - seen.start_ns)),
            lane.scene.line_color(column),
            is_dashed=column > 1,
        )
        for column, (name, level, end) in enumerate(zip(NAMES, levels, ends, strict=True))
    ]
    lane.series = lambda: lines  # type: ignore[method-assign]
    image = QImage(round(lane.canvas_width) * scale, lane.height() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(lane.scene.theme.panel)
    painter = WatchedPainter(image)
    lane.paint_canvas(painter, QRectF(0, 0, lane.canvas_width, lane.height()))
    painter.end()
    if path:
        image.save(path)
    return painter.grounds


@pytest.mark.parametrize("scale", [1, 2])
def test_names_keep_apart_and_in_the_lane(lane: KvLane, scale: int) -> None:
    whole = QRectF(0, 0, lane.canvas_width, lane.height())
    heights = (2e6, 1.9e6, 1e6, 1e5)
    for levels, ends in product(product(heights, repeat=3), ((1.0, 1.0, 1.0), (0.9, 0.95, 1.0), (0.05, 0.1, 0.2))):
        names = names_of(lane, levels, ends, scale)
        assert len(names) == len(NAMES)
        assert all(whole.contains(name) for name in names), (levels, ends, names)
        for one, other in combinations(names, 2):
            room = one.adjusted(-APART_PX, -APART_PX, APART_PX, APART_PX)
            assert not room.intersects(other), (levels, ends, names)


@pytest.mark.parametrize("scale", [1, 2])
def test_dashes_are_told_from_a_line_that_they_run_along(lane: KvLane, tmp_path: Path, scale: int) -> None:
    path = tmp_path / "lane.png"
    names_of(lane, (1e6, 1e5, 1e6), (1.0, 1.0, 1.0), scale, str(path))
    picture, panel = QImage(str(path)), lane.scene.theme.panel
    a, b = (lane.scene.line_color(column) for column in (0, 2))
    row = max(range(picture.height()), key=lambda y: [picture.pixelColor(x, y) for x in range(400)].count(a))
    assert a == b
    colors = [picture.pixelColor(x, row) for x in range(20, 400)]
    is_gap = [abs(color.lightness() - panel.lightness()) < abs(color.lightness() - a.lightness()) for color in colors]
    changes = sum(one != other for one, other in pairwise(is_gap))
    assert changes > 4 * len(colors) / scale / 12 * 0.9, "two gaps around every dash"


def test_a_name_alone_stands_above_the_end_of_its_line(lane: KvLane) -> None:
    first, *_ = names_of(lane, (1e6, 1e5, 1e4), (0.5, 0.9, 1.0), 1)
    seen = lane.scene.scale
    assert first.right() == pytest.approx(seen.x((seen.start_ns + seen.end_ns) // 2), abs=1)
