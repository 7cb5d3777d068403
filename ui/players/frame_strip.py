"""The frames that a model saw, with their sensor time; a click takes the players there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QImage, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy

from evprof.core.records import FrameRecord
from evprof.view.columns import ShownModel
from ui.players.play_clock import PlayClock
from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.label import elided_text

if TYPE_CHECKING:
    from evprof.metrics.costs.two_clocks import SensorSpan

GAP = 4.0
LABEL = 14.0
_LABEL_PX = 10.0


class FramePictures:
    """Frames of one model of a run, in order, decoded once; grows with the run."""

    def __init__(self, column: ShownModel) -> None:
        self.column = column
        self.records: list[FrameRecord] = []
        self.images: list[QImage] = []
        self._slices: list[SensorSpan] = []

    def update(self) -> bool:
        """Decodes new frames. True when there were any."""
        fresh = self.column.run.frames.get(self.column.role, [])[len(self.records) :]
        self.records += fresh
        self.images += [QImage.fromData(record.png) for record in fresh]
        return bool(fresh)

    @property
    def origin_us(self) -> int:
        """Sensor time of the first event or frame."""
        return min((record.start_us for record in self.records), default=0)

    @property
    def duration_us(self) -> int:
        return max((record.end_us for record in self.records), default=0) - self.origin_us

    @property
    def slices(self) -> list[SensorSpan]:
        """When each of them was sensed, on the sample's clock."""
        from evprof.metrics.costs.two_clocks import slices_of

        if len(self._slices) != len(self.records):
            self._slices = slices_of(self.column.run, self.column.role, self.records)
        return self._slices

    @property
    def span(self) -> SensorSpan | None:
        """From the first start to the last end on the sample's clock; None without frames."""
        from evprof.metrics.costs.two_clocks import SensorSpan

        if not self.records:
            return None
        return SensorSpan(min(one.start_us for one in self.slices), max(one.stop_us for one in self.slices))

    def index_at(self, position_us: int) -> int | None:
        """The frame on display at a moment of the sample's clock; None without frames."""
        from evprof.metrics.costs.two_clocks import slice_at

        return slice_at(self.slices, position_us)


@dataclass(frozen=True)
class Grid:
    """How frames share the room: columns, rows and the size of one picture in px."""

    columns: int
    rows: int
    width: float
    height: float


def best_grid(count: int, aspect: float, width: float, height: float) -> Grid:
    """The arrangement of `count` pictures of `aspect` (width / height) that draws them largest."""
    best = Grid(max(1, count), 1, 0.0, 0.0)
    for columns in range(1, max(1, count) + 1):
        rows = -(-count // columns)
        cell_width = (width - (columns - 1) * GAP) / columns
        cell_height = (height - (rows - 1) * GAP) / rows - LABEL
        scale = min(cell_width, cell_height * aspect)
        if scale > best.width + 0.5:
            best = Grid(columns, rows, scale, scale / aspect)
    return best


class FrameStrip(Drawn):
    """Small pictures in reading order; the one at the players' position is framed."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock) -> None:
        super().__init__(themes)
        self._clock = clock
        self._pictures: FramePictures | None = None
        self._lack = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Frames the model saw")
        clock.position_changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        return QSize(240, 112)

    def show_pictures(self, pictures: FramePictures | None, lack: str = "") -> None:
        """Shows a model's frames; `lack` explains why there are none."""
        self._pictures = pictures
        self._lack = lack
        self.update()

    def cells(self) -> list[QRectF]:
        pictures = self._pictures
        if pictures is None or not pictures.images:
            return []
        first, count = pictures.images[0], len(pictures.images)
        aspect = first.width() / first.height() if first.height() else 4 / 3
        grid = best_grid(count, aspect, self.width(), self.height())
        across, down = grid.width + GAP, grid.height + LABEL + GAP
        places = (divmod(index, grid.columns) for index in range(count))
        return [QRectF(column * across, row * down, grid.width, grid.height) for row, column in places]

    def paintEvent(self, _event: QPaintEvent) -> None:
        pictures = self._pictures
        if pictures is None:
            return
        painter = QPainter(self)
        painter.setRenderHints(QPainter.RenderHint.SmoothPixmapTransform | QPainter.RenderHint.Antialiasing)
        theme = self._themes.theme
        if self._lack and not pictures.images:
            painter.setFont(theme.font(SMALL_PX))
            painter.setPen(theme.text_dim)
            painter.drawText(QRectF(self.rect()), int(Qt.TextFlag.TextWordWrap), self._lack)
            return
        painter.setFont(theme.font(_LABEL_PX))
        cells = self.cells()
        labels = self._labels(QFontMetricsF(painter.font()), cells)
        current = pictures.index_at(self._clock.position_us)
        for index, (cell, image, label) in enumerate(zip(cells, pictures.images, labels, strict=True)):
            painter.drawImage(cell, image)
            is_current = index == current
            painter.setPen(QPen(theme.accent if is_current else theme.line, 1.5 if is_current else 1.0))
            painter.drawRect(cell)
            painter.setPen(theme.text if is_current else theme.text_dim)
            painter.drawText(QPointF(cell.left(), cell.bottom() + LABEL - 3), label)

    def _labels(self, metrics: QFontMetricsF, cells: list[QRectF]) -> list[str]:
        """Start and end of each frame; only starts where that is too long; below small pictures only labels that keep
        clear of one another."""
        labels = [self._label(index) for index in range(len(cells))]
        if any(metrics.horizontalAdvance(label) > cell.width() for label, cell in zip(labels, cells, strict=True)):
            labels = [self._label(index, has_end=False) for index in range(len(cells))]
        end, row = 0.0, -1.0
        for index, (label, cell) in enumerate(zip(labels, cells, strict=True)):
            is_first, row = cell.top() != row, cell.top()
            shown = elided_text(metrics, label, Qt.TextElideMode.ElideRight, self.width() - cell.left())
            if not is_first and (cell.left() < end + GAP or shown != label):
                shown = ""
            else:
                end = cell.left() + metrics.horizontalAdvance(shown)
            labels[index] = shown
        return labels

    def _label(self, index: int, *, has_end: bool = True) -> str:
        """Sensor time of a frame in ms since the first; only the first label has the unit."""
        if self._pictures is None:
            return ""
        record, origin_us = self._pictures.records[index], self._pictures.origin_us
        digits = 1 if self._pictures.duration_us < 100_000 else 0
        start, end = (f"{(moment - origin_us) / 1000:.{digits}f}" for moment in (record.start_us, record.end_us))
        label = f"{start}–{end}" if has_end and start != end else start
        return label if index else f"{label} ms"

    def index_at(self, point: QPoint) -> int | None:
        return next((index for index, cell in enumerate(self.cells()) if cell.contains(point.toPointF())), None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.index_at(event.position().toPoint())
        if index is not None and self._pictures is not None:
            # An event slice shows what led up to its end; a video frame begins and ends at once.
            self._clock.set_playing(False)
            self._clock.seek(self._pictures.slices[index].stop_us)

    def tip_at(self, point: QPoint) -> str:
        index = self.index_at(point)
        if index is None or self._pictures is None:
            return ""
        return f"frame {index + 1} · {self._pictures.records[index].label}"
