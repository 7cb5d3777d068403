"""The frames a model really saw, with their sensor time; a click takes the players there."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from ui.players.frame_pictures import FramePictures
from ui.players.play_clock import PlayClock
from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import Drawn
from ui.widgets.elided import elided_text

GAP = 4.0
LABEL = 14.0
_LABEL_PX = 10.0


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
    """Small pictures in reading order; the one the players stand at is framed."""

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(themes, parent)
        self._clock = clock
        self._pictures: FramePictures | None = None
        self._current: int | None = None
        self._lack = ""
        self._is_seen = False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Frames the model saw")
        clock.position_changed.connect(self._follow)

    def sizeHint(self) -> QSize:
        return QSize(240, 112)

    def show_pictures(self, pictures: FramePictures | None, lack: str = "") -> None:
        """Shows a model's frames; `lack` is said where there can be none."""
        self._pictures = pictures
        self._lack = lack
        self._current = None
        self._follow(self._clock.position_us)
        self.update()

    def show_seen(self, is_seen: bool) -> None:
        """Marks the frames as what the selected thing is work on, or was drawn from."""
        if is_seen != self._is_seen:
            self._is_seen = is_seen
            self.update()

    @property
    def is_seen(self) -> bool:
        """Whether the frames are marked."""
        return self._is_seen

    def refresh(self) -> None:
        """Draws frames that have come since."""
        self._follow(self._clock.position_us)
        self.update()

    def cells(self) -> list[QRectF]:
        """Where each picture is drawn."""
        pictures = self._pictures
        if pictures is None or not pictures.images:
            return []
        first = pictures.images[0]
        aspect = first.width() / first.height() if first.height() else 4 / 3
        grid = best_grid(len(pictures.images), aspect, self.width(), self.height())
        return [
            QRectF(
                (index % grid.columns) * (grid.width + GAP),
                (index // grid.columns) * (grid.height + LABEL + GAP),
                grid.width,
                grid.height,
            )
            for index in range(len(pictures.images))
        ]

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
            flags = int(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap)
            painter.drawText(QRectF(self.rect()), flags, self._lack)
            return
        painter.setFont(theme.font(_LABEL_PX))
        metrics = QFontMetricsF(painter.font())
        cells = self.cells()
        labels = self._labels(metrics, cells)
        # A run that has frames from another build of it may hold fewer pictures than cells: zip stops at the shorter.
        for index, (cell, image) in enumerate(zip(cells, pictures.images, strict=False)):
            painter.drawImage(cell, image)
            is_current = index == self._current
            painter.setPen(QPen(theme.accent if is_current else theme.line, 1.5 if is_current else 1.0))
            painter.drawRect(cell)
            if self._is_seen:
                painter.fillRect(QRectF(cell.left(), cell.bottom() - 3, cell.width(), 3), theme.accent)
            painter.setPen(theme.text if is_current else theme.text_dim)
            painter.drawText(QPointF(cell.left(), cell.bottom() + LABEL - 3), labels[index])

    def _labels(self, metrics: QFontMetricsF, cells: list[QRectF]) -> list[str]:
        """From and to of every frame; only where each begins, where that is too long for one of them; below small
        pictures only those that keep clear of one another."""
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
        """Sensor time of a frame in ms since the first; the unit stands in the first label only, as on an axis."""
        if self._pictures is None:
            return ""
        record, origin_us = self._pictures.records[index], self._pictures.origin_us
        digits = 1 if self._pictures.duration_us < 100_000 else 0
        start, end = (f"{(moment - origin_us) / 1000:.{digits}f}" for moment in (record.start_us, record.end_us))
        label = f"{start}–{end}" if has_end and start != end else start
        return label if index else f"{label} ms"

    def index_at(self, point: QPoint) -> int | None:
        """The picture under a point."""
        return next((index for index, cell in enumerate(self.cells()) if cell.contains(point.toPointF())), None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        index = self.index_at(event.position().toPoint())
        if index is not None and self._pictures is not None:
            # An event slice shows what led up to its end, a video frame begins and ends at once.
            self._clock.set_playing(False)
            self._clock.seek(self._pictures.slices[index].stop_us)

    def tip_at(self, point: QPoint) -> str:
        """The frame's number and time."""
        index = self.index_at(point)
        if index is None or self._pictures is None:
            return ""
        return f"frame {index + 1} · {self._pictures.records[index].label}"

    def _follow(self, position_us: int) -> None:
        current = None if self._pictures is None else self._pictures.index_at(position_us)
        if current != self._current:
            self._current = current
            self.update()
