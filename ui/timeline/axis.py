"""The axis above the lanes: ticks, marks, the pointer's moment, and the alignment of runs A and B."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QLineF, QObject, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QMenu, QPushButton, QSizePolicy, QWidget

from evprof.session.facts import Mark
from evprof.view.alignment import FIRST_TOKEN, LANDMARK, RunAlignment, landmark_of
from evprof.view.timescale import tick_step, tick_unit, time_text
from ui.style.theme import SMALL_PX
from ui.timeline.lane import ticks_px
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.widgets.boxes import beside, in_role
from ui.widgets.drawn import show_tip

HEIGHT_PX = 30
_UNIT_PX = 40
_FLAG_PX = 7.0


class AxisHead(QWidget):
    """Time ticks over the lanes. `chip` is the button "Follow" (live) or "Fit"; the TimelineView wires it.

    Signals:
        mark_chosen(object): the flag of a Mark was clicked.
        menu_asked(object, object): the Mark that was right-clicked, or None, and the position on the screen.
    """

    mark_chosen = Signal(object)
    menu_asked = Signal(object, object)

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__()
        self.scene = scene
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.chip = in_role(QPushButton("Fit", self), "chip")
        self.chip.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.chip.hide()
        beside(None, self.chip, on=self, margins=(0, 0, 8, 0))

    def hold(self, chip: QPushButton) -> None:
        """Shows another button over the names of the lanes."""
        chip.setParent(self)
        chip.setGeometry(_UNIT_PX, (HEIGHT_PX - 20) // 2, GUTTER_PX - _UNIT_PX - 8, 20)

    def sizeHint(self) -> QSize:
        return QSize(600, HEIGHT_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Ticks, unit, marks, and the length of the marked range or the pointer's moment."""
        painter, scale, theme, high = QPainter(self), self.scene.scale, self.scene.theme, self.height()
        painter.fillRect(self.rect(), theme.panel)
        painter.fillRect(0, high - 1, self.width(), 1, theme.line)
        painter.fillRect(GUTTER_PX - 1, 0, 1, high, theme.line)
        painter.setPen(theme.text_dim)
        unit = tick_unit(tick_step(scale.ns_per_px * 88))
        theme.write(painter, QRectF(16, 0, GUTTER_PX - 24, high), unit, SMALL_PX)
        painter.setClipRect(QRectF(GUTTER_PX, 0, self.width() - GUTTER_PX, high))
        painter.translate(GUTTER_PX, 0)
        ticks = ticks_px(scale)
        painter.drawLines([QLineF(x, high - 7, x, high - 1) for x, _ in ticks])
        for x, text in ticks:
            theme.write(painter, QRectF(x + 4, 0, 90, high - 3), text, SMALL_PX)
        for _, x in self.flags():
            painter.fillRect(QRectF(x, 1, _FLAG_PX, 12), theme.warn)
            painter.fillRect(QRectF(x, 1, 1.5, high - 2), theme.warn)
        chosen = self.scene.marked_range
        if chosen is not None:
            x0, x1 = scale.x(chosen.start_ns), scale.x(chosen.end_ns)
            painter.fillRect(QRectF(x0, high - 4, max(1.0, x1 - x0), 3), theme.accent)
            self._paint_tag(painter, (x0 + x1) / 2, time_text(chosen.end_ns - chosen.start_ns, scale.ns_per_px))
        elif self.scene.pointer_px is not None:
            self._paint_tag(painter, self.scene.pointer_px, self.pointer_text())
        painter.end()

    def _paint_tag(self, painter: QPainter, middle_px: float, text: str) -> None:
        """A text on a plate, within the visible part of the axis."""
        theme = self.scene.theme
        width = theme.text_width(text, SMALL_PX, 600) + 12
        end = (self.chip.x() if self.chip.isVisible() else self.width()) - GUTTER_PX - width - 4
        room = QRectF(min(max(middle_px - width / 2, 4.0), end), 5, width, 18)
        painter.setPen(QPen(theme.line, 1))
        painter.setBrush(theme.raised)
        painter.drawRect(room)
        painter.setPen(theme.text)
        theme.write(painter, room.adjusted(6, 0, 0, 0), text, SMALL_PX, 600)

    def pointer_text(self) -> str:
        """The moment under the pointer; "" where the pointer is elsewhere."""
        at_px, scale = self.scene.pointer_px, self.scene.scale
        return "" if at_px is None else time_text(scale.t(at_px), scale.ns_per_px)

    def flags(self) -> list[tuple[Mark, float]]:
        """The marks in view, left to right, and the positions of their flags."""
        placed = [(mark, round(self.scene.scale.x(when.start_ns)) + 0.0) for mark, when in self.scene.placed_marks()]
        width = self.width() - GUTTER_PX
        return sorted(((mark, x) for mark, x in placed if -_FLAG_PX < x < width), key=lambda entry: entry[1])

    def mark_at(self, pos: QPointF) -> Mark | None:
        x = pos.x() - GUTTER_PX
        near = [mark for mark, at in self.flags() if -2 <= x - at <= _FLAG_PX + 3]
        return near[-1] if near and x > -2 else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        mark = self.mark_at(event.position())
        if mark is not None and event.button() == Qt.MouseButton.LeftButton:
            self.mark_chosen.emit(mark)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.menu_asked.emit(self.mark_at(QPointF(event.pos())), event.globalPos())

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self._tip_at) or super().event(event)

    def _tip_at(self, point: QPoint) -> str:
        mark = self.mark_at(QPointF(point))
        return "" if mark is None else mark.note or f"Mark at {time_text(mark.start_ns)}"


class Aligning(QObject):
    """Aligns run B with run A. Nothing happens while A and B are not two runs.

    Signals:
        moved(): B has another place on the axis.
    """

    moved = Signal()

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self._scene = scene
        self.is_known = True
        self.chip = in_role(QPushButton("Align", parent), "chip")
        self.chip.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.chip.setAccessibleName("Alignment of runs A and B")
        menu = QMenu(self.chip)
        menu.aboutToShow.connect(lambda: self.fill(menu))
        self.chip.setMenu(menu)
        self.chip.hide()
        scene.selection.alignment_changed.connect(self.resolve)

    @property
    def is_possible(self) -> bool:
        return bool(self._scene.headers[0])

    def resolve(self, *_: object) -> bool:
        """Moves B to its place by the alignment; returns whether it moved. Called on every tick with new rows."""
        selection, offset = self._scene.selection, self._scene.align()
        known, self.is_known = self.is_known, offset is not None
        has_moved = (offset or 0) != selection.offset_ns
        selection.set_offset(offset or 0)
        self._show_state()
        if has_moved or known != self.is_known:
            self.moved.emit()
        return has_moved

    def _show_state(self) -> None:
        selection = self._scene.selection
        offset, title = selection.offset_ns, selection.alignment.title
        self.chip.setVisible(self.is_possible)
        if not self.is_known:
            self.chip.setText(f"no {title} yet")
            self.chip.setToolTip(f"One of the runs has no {title} (yet): both are shown from their start.")
            return
        sign = "+" if offset > 0 else "−"
        self.chip.setText(f"B {sign}{time_text(abs(offset), self._scene.scale.ns_per_px)}" if offset else "Align")
        self.chip.setToolTip(f"The runs are aligned at the {title}. Click to align otherwise.")

    def at_start(self) -> None:
        self._scene.selection.set_alignment(RunAlignment())

    def at_first_token(self) -> None:
        self._scene.selection.set_alignment(RunAlignment(FIRST_TOKEN))

    def at_span(self) -> None:
        """Aligns the selected span with the same span of the other run."""
        if (landmark := self.selected_landmark) is not None:
            self._scene.selection.set_alignment(landmark)

    @property
    def selected_landmark(self) -> RunAlignment | None:
        """The alignment at the selected span; None where no span of a shown run is selected."""
        chosen = self._scene.selection.span
        for _, track in self._scene.of_each_run:
            if chosen is not None and track.run.run_id == chosen.run_id and chosen.span_id in track.run.spans:
                return RunAlignment(LANDMARK, landmark_of(track.run, track.run.spans[chosen.span_id]))
        return None

    def fill(self, menu: QMenu) -> None:
        kind, landmark = self._scene.selection.alignment.kind, self.selected_landmark
        at_span = f"Align at {landmark.title}" if landmark else "Align at the selected span"
        menu.clear()
        for text, work, is_chosen in (
            ("Align at the start", self.at_start, kind == RunAlignment().kind),
            ("Align at the first token", self.at_first_token, kind == FIRST_TOKEN),
            (at_span, self.at_span, kind == LANDMARK),
        ):
            action = menu.addAction(text, work)
            action.setCheckable(True)
            action.setChecked(is_chosen)
            action.setEnabled(work != self.at_span or landmark is not None)
