"""The axis above the lanes: ticks, marks, the pointer's moment, and the alignment of runs A and B."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from PySide6.QtCore import QEvent, QLineF, QObject, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QInputDialog, QMenu, QPushButton, QSizePolicy, QWidget

from evprof.core.units import ms_from_ns
from evprof.session.facts import Mark
from evprof.view.alignment import BY_HAND, FIRST_TOKEN, LANDMARK, RunAlignment, landmark_of
from evprof.view.timescale import tick_step, tick_unit, time_text
from ui.style.theme import SMALL_PX
from ui.timeline.lane import ticks_px
from ui.timeline.scene import GUTTER_PX, TimelineScene
from ui.widgets.boxes import beside, in_role
from ui.widgets.drawn import show_tip
from ui.widgets.label import elided_text

HEIGHT_PX = 30
_UNIT_PX = 40
_FLAG_PX = 7.0
_FLAG_TEXT_PX = 10.5
_NOTE_PX = 140.0

Tag: TypeAlias = tuple[QRectF, str]
"""A text on a plate, and its room."""


class AxisHead(QWidget):
    """Time ticks over the lanes. `chip` is the button "Follow" (live) or "Fit"; the TimelineView wires it.

    Signals:
        mark_chosen(object): the flag of a Mark was clicked.
        note_asked(object): the flag of a Mark was double-clicked.
        menu_asked(object, object): the Mark that was right-clicked, or None, and where on the screen.
    """

    mark_chosen = Signal(object)
    note_asked = Signal(object)
    menu_asked = Signal(object, object)

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__()
        self.scene = scene
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.chip = QPushButton("Fit", self)
        self.chip.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.chip.setProperty("role", "chip")
        self.chip.setCursor(Qt.CursorShape.PointingHandCursor)
        self.chip.hide()
        beside(None, self.chip, on=self, margins=(0, 0, 8, 0))

    def hold(self, chip: QPushButton) -> None:
        chip.setParent(self)
        chip.setGeometry(_UNIT_PX, (HEIGHT_PX - 20) // 2, GUTTER_PX - _UNIT_PX - 8, 20)

    def sizeHint(self) -> QSize:
        return QSize(600, HEIGHT_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Ticks, unit, marks, the range's length or the moment chosen, the pointer's moment."""
        painter = QPainter(self)
        theme = self.scene.theme
        painter.fillRect(self.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        bottom = self.height() - 0.5
        painter.drawLine(QPointF(0, bottom), QPointF(self.width(), bottom))
        painter.drawLine(QPointF(GUTTER_PX - 0.5, 0), QPointF(GUTTER_PX - 0.5, self.height()))
        painter.setPen(theme.text_dim)
        step = tick_step(self.scene.scale.ns_per_px * 88)
        theme.write(painter, QRectF(16, 0, GUTTER_PX - 24, self.height()), tick_unit(step), SMALL_PX)
        painter.setClipRect(QRectF(GUTTER_PX, 0, self.width() - GUTTER_PX, self.height()))
        painter.translate(GUTTER_PX, 0)
        tag = self._range_tag() or self._pointer_tag()
        flags = self._flags_and_notes()
        taken = [room for room, _ in flags]
        if tag:
            taken.append(tag[0])
        self._paint_ticks(painter, taken)
        self._paint_marks(painter, flags)
        self._paint_range(painter)
        if tag:
            self._paint_tag(painter, *tag)
        painter.end()

    def _paint_ticks(self, painter: QPainter, taken: list[QRectF]) -> None:
        """Numbers that something else would cover in part are left out."""
        theme, scale = self.scene.theme, self.scene.scale
        high = self.height()
        painter.setPen(QPen(theme.line, 1))
        minor = (round(scale.x(t_ns)) + 0.5 for t_ns in scale.minor_ticks())
        painter.drawLines([QLineF(x, high - 4, x, high - 1) for x in minor])
        ticks = ticks_px(scale)
        painter.setPen(QPen(theme.text_dim, 1))
        painter.drawLines([QLineF(x, high - 7, x, high - 1) for x, _ in ticks])
        for x, text in ticks:
            room = QRectF(x + 2, 0, round(theme.text_width(text, SMALL_PX)) + 4, high)
            if room.right() > self._end_px or any(map(room.intersects, taken)):
                continue
            theme.write(painter, QRectF(x + 4, 0, 90, high - 3), text, SMALL_PX)

    def _paint_range(self, painter: QPainter) -> None:
        chosen = self.scene.marked_range
        if chosen is not None:
            x0, x1 = (self.scene.scale.x(t_ns) for t_ns in chosen)
            painter.fillRect(QRectF(x0, self.height() - 4, max(1.0, x1 - x0), 3), self.scene.theme.accent)

    def _range_tag(self) -> Tag | None:
        """How long the marked range is, or which moment it is."""
        chosen, scale = self.scene.marked_range, self.scene.scale
        if chosen is None:
            return None
        x0, x1 = (scale.x(t_ns) for t_ns in chosen)
        is_moment = chosen[0] == chosen[1]
        text = time_text(chosen[0] if is_moment else chosen[1] - chosen[0], scale.ns_per_px)
        # Beside a moment may stand the flag of its mark.
        return self._tag(text, left_px=x0 + _FLAG_PX + 2) if is_moment else self._tag(text, middle_px=(x0 + x1) / 2)

    def _pointer_tag(self) -> Tag | None:
        at_px, text = self.scene.pointer_px, self.pointer_text()
        return self._tag(text, middle_px=at_px) if at_px is not None and text else None

    def _tag(self, text: str, *, left_px: float | None = None, middle_px: float = 0.0) -> Tag:
        """A text with its room, which begins there or lies around there, as far as that is in sight."""
        width = self.scene.theme.text_width(text, SMALL_PX, 600) + 12
        left = middle_px - width / 2 if left_px is None else left_px
        return QRectF(min(max(left, 4.0), self._end_px - width - 4), 5, width, 18), text

    @property
    def _end_px(self) -> float:
        """Where the room for texts ends."""
        return (self.chip.x() if self.chip.isVisible() else self.width()) - GUTTER_PX

    def _flags_and_notes(self) -> list[tuple[QRectF, str]]:
        """A flag's room for each mark, with the beginning of its note as far as the next flag leaves room."""
        metrics = QFontMetricsF(self.scene.theme.font(_FLAG_TEXT_PX, 500))
        free, found = float(self.width() - GUTTER_PX), []
        for mark, x in reversed(self.flags()):
            room = min(free - x - 4, _NOTE_PX)
            text = elided_text(metrics, mark.note, Qt.TextElideMode.ElideRight, room - 10) if room > 24 else ""
            found.append((QRectF(x, 1, metrics.horizontalAdvance(text) + 10 if text else _FLAG_PX, 13), text))
            free = x
        return found

    def _paint_marks(self, painter: QPainter, flags: list[tuple[QRectF, str]]) -> None:
        theme = self.scene.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(theme.font(_FLAG_TEXT_PX, 500))
        for flag, text in flags:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.warn)
            painter.drawRoundedRect(flag, 2, 2)
            painter.drawRect(QRectF(flag.left(), 1, 1.5, self.height() - 2))
            painter.setPen(theme.ink(theme.warn))
            painter.drawText(flag.adjusted(5, -0.5, 0, 0), Qt.AlignmentFlag.AlignVCenter, text)

    def flags(self) -> list[tuple[Mark, float]]:
        """The marks in view, left to right, and where their flags stand."""
        width = self.width() - GUTTER_PX
        placed = [(mark, round(self.scene.scale.x(when.start_ns)) + 0.0) for mark, when in self.scene.placed_marks()]
        return sorted(((mark, x) for mark, x in placed if -_FLAG_PX < x < width), key=lambda entry: entry[1])

    def mark_at(self, pos: QPointF) -> Mark | None:
        x = pos.x() - GUTTER_PX
        near = [(at, mark) for mark, at in self.flags() if -2 <= x - at <= _FLAG_PX + 3]
        return max(near, key=lambda entry: entry[0])[1] if near and x > -2 else None

    def mousePressEvent(self, event: QMouseEvent) -> None:
        mark = self.mark_at(event.position())
        if mark is not None and event.button() == Qt.MouseButton.LeftButton:
            self.mark_chosen.emit(mark)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        mark = self.mark_at(event.position())
        if mark is not None:
            self.note_asked.emit(mark)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """What can be done with a mark, or with the view."""
        self.menu_asked.emit(self.mark_at(QPointF(event.pos())), event.globalPos())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        mark = self.mark_at(event.position())
        self.setCursor(Qt.CursorShape.ArrowCursor if mark is None else Qt.CursorShape.PointingHandCursor)

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self._tip_at) or super().event(event)

    def _tip_at(self, point: QPoint) -> str:
        mark = self.mark_at(QPointF(point))
        return "" if mark is None else mark.note or f"Mark at {time_text(mark.start_ns)}"

    def pointer_text(self) -> str:
        """The moment under the pointer, as the view is now; "" where nothing is pointed at."""
        at_px, scale = self.scene.pointer_px, self.scene.scale
        return "" if at_px is None else time_text(scale.t(at_px), scale.ns_per_px)

    def _paint_tag(self, painter: QPainter, room: QRectF, text: str) -> None:
        theme = self.scene.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(theme.line, 1))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(room.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        painter.setPen(theme.text)
        painter.setFont(theme.font(SMALL_PX, 600))
        painter.drawText(room, Qt.AlignmentFlag.AlignCenter, text)


_MOST_MS = 3_600_000.0
"""An hour: nobody lays runs further apart."""


class Aligning(QObject):
    """Carries the alignment out. Nothing happens while A and B are not two runs.

    Signals:
        moved(): B lies elsewhere on the axis.
    """

    moved = Signal()

    def __init__(self, scene: TimelineScene, parent: QWidget) -> None:
        super().__init__(parent)
        self._scene = scene
        self._window = parent
        self.is_known = True
        self.chip = OffsetChip(scene, self.fill)
        scene.selection.alignment_changed.connect(self.resolve)

    @property
    def is_possible(self) -> bool:
        return bool(self._scene.headers[0])

    def resolve(self, *_: object) -> bool:
        """Moves B to where the alignment wants it; returns whether it lay elsewhere. Called for every frame of news."""
        offset = self._scene.align()
        known, self.is_known = self.is_known, offset is not None
        has_moved = (offset or 0) != self._scene.selection.offset_ns
        self._scene.selection.set_offset(offset or 0)
        self.chip.show_state(is_possible=self.is_possible, is_known=self.is_known)
        if has_moved or known != self.is_known:
            self.moved.emit()
        return has_moved

    # Commands.

    def at_start(self) -> None:
        self._scene.selection.set_alignment(RunAlignment())

    def at_first_token(self) -> None:
        """Both runs say their first token at the same place."""
        self._scene.selection.set_alignment(RunAlignment(FIRST_TOKEN))

    def at_span(self) -> None:
        """The selected span lies over its like in the other run."""
        found = self.selected_landmark
        if found is not None:
            self._scene.selection.set_alignment(found)

    @property
    def selected_landmark(self) -> RunAlignment | None:
        """What aligning at the selected span means; None where no span of a shown run is selected."""
        chosen = self._scene.selection.span
        for _, track in self._scene.of_each_run:
            if chosen is not None and track.run.run_id == chosen.run_id and chosen.span_id in track.run.spans:
                return RunAlignment(LANDMARK, landmark_of(track.run, track.run.spans[chosen.span_id]))
        return None

    def ask(self) -> None:
        now = ms_from_ns(self._scene.selection.offset_ns)
        title, question = "Offset of run B", "Move run B to the right by this many milliseconds; to the left below 0:"
        value, is_given = QInputDialog.getDouble(self._window, title, question, now, -_MOST_MS, _MOST_MS, 3)
        if is_given and self.is_possible:
            self._scene.selection.set_alignment(RunAlignment(BY_HAND, offset_ns=round(value * 1e6)))

    def fill(self, menu: QMenu) -> None:
        chosen, found = self._scene.selection.alignment, self.selected_landmark
        entries: tuple[tuple[str, Callable[[], None], bool, bool], ...] = (
            ("Align at the start", self.at_start, True, chosen == RunAlignment()),
            ("Align at the first token", self.at_first_token, True, chosen.kind == FIRST_TOKEN),
            (
                f"Align at {found.title}" if found else "Align at the selected span",
                self.at_span,
                found is not None,
                chosen.kind == LANDMARK,
            ),
            ("Type an offset…", self.ask, True, chosen.kind == BY_HAND),
        )
        menu.clear()
        for text, work, is_possible, is_chosen in entries:
            action = menu.addAction(text)
            action.setCheckable(True)
            action.setChecked(is_chosen)
            action.setEnabled(is_possible)
            action.triggered.connect(lambda _=False, work=work: work())


class OffsetChip(QPushButton):
    """Says how far B is moved; a click opens the menu of alignments."""

    def __init__(self, scene: TimelineScene, fill: Callable[[QMenu], None]) -> None:
        super().__init__()
        self._scene = scene
        in_role(self, "chip").setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("Alignment of runs A and B")
        menu = QMenu(self)
        menu.aboutToShow.connect(lambda: fill(menu))
        self.setMenu(menu)
        self.hide()

    def show_state(self, *, is_possible: bool, is_known: bool) -> None:
        selection = self._scene.selection
        offset, title = selection.offset_ns, selection.alignment.title
        self.setVisible(is_possible)
        if not is_known:
            self.setText(f"no {title} yet")
            self.setToolTip(f"One of the runs has no {title} (yet): both are shown from their start.")
            return
        sign = "+" if offset > 0 else "−"
        self.setText(f"B {sign}{time_text(abs(offset), self._scene.scale.ns_per_px)}" if offset else "Align")
        where = "at the typed offset" if selection.alignment.kind == BY_HAND else f"aligned at the {title}"
        moved = f"B is drawn {time_text(abs(offset))} {'later' if offset > 0 else 'earlier'}" if offset else "B"
        self.setToolTip(f"{moved}, {where}. Click to align otherwise.")
