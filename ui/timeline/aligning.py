"""Laying two runs over each other: commands, their menu, and the chip on the axis that shows and moves the offset."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPointF, Qt, Signal
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QInputDialog, QMenu, QPushButton, QWidget

from evprof.core.units import ms_from_ns
from evprof.view.alignment import BY_HAND, FIRST_TOKEN, LANDMARK, RunAlignment, landmark_of
from evprof.view.timescale import time_text
from ui.timeline.scene import TimelineScene

_DRAG_BEGINS_PX = 3.0
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
        self.chip = OffsetChip(scene, self.drag, self.fill)
        scene.selection.alignment_changed.connect(self.resolve)

    @property
    def is_possible(self) -> bool:
        """Whether two runs are shown."""
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
        """Both runs begin at zero."""
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
        """Asks by how many milliseconds B is moved."""
        now = ms_from_ns(self._scene.selection.offset_ns)
        title, question = "Offset of run B", "Move run B to the right by this many milliseconds; to the left below 0:"
        value, is_given = QInputDialog.getDouble(self._window, title, question, now, -_MOST_MS, _MOST_MS, 3)
        if is_given and self.is_possible:
            self._move_to(round(value * 1e6))

    def drag(self, by_px: float) -> None:
        """Moves B by a number of px."""
        if self.is_possible:
            self._move_to(self._scene.selection.offset_ns + round(by_px * self._scene.scale.ns_per_px))

    def _move_to(self, offset_ns: int) -> None:
        most = round(_MOST_MS * 1e6)
        self._scene.selection.set_alignment(RunAlignment(BY_HAND, offset_ns=min(max(offset_ns, -most), most)))

    def fill(self, menu: QMenu) -> None:
        """The commands with what each means now."""
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
    """How far B is moved. A click opens the menu, dragging sideways moves B."""

    def __init__(self, scene: TimelineScene, drag: Callable[[float], None], fill: Callable[[QMenu], None]) -> None:
        super().__init__()
        self._scene = scene
        self._drag = drag
        self._fill = fill
        self._pressed: QPointF | None = None
        self._is_dragging = False
        self.setProperty("role", "chip")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName("RunAlignment of runs A and B")
        self.hide()

    def show_state(self, *, is_possible: bool, is_known: bool) -> None:
        """Says what is aligned and how far B is moved."""
        selection = self._scene.selection
        offset, title = selection.offset_ns, selection.alignment.title
        self.setVisible(is_possible)
        if not is_known:
            self.setText(f"no {title} yet")
            self.setToolTip(f"One of the runs has no {title} (yet): both are shown from their start.")
            return
        sign = "+" if offset > 0 else "−"
        self.setText(f"B {sign}{time_text(abs(offset), self._scene.scale.ns_per_px)}" if offset else "Align")
        where = "as you moved it" if selection.alignment.kind == BY_HAND else f"aligned at the {title}"
        moved = f"B is drawn {time_text(abs(offset))} {'later' if offset > 0 else 'earlier'}" if offset else "B"
        self.setToolTip(f"{moved}, {where}. Click to align otherwise, drag to move B.")

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begins a click or a drag."""
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed, self._is_dragging = event.globalPosition(), False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Moves B along."""
        if self._pressed is None:
            return
        by = event.globalPosition().x() - self._pressed.x()
        if self._is_dragging or abs(by) > _DRAG_BEGINS_PX:
            self._is_dragging = True
            self._pressed = event.globalPosition()
            self._drag(by)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A press without a drag opens the menu."""
        super().mouseReleaseEvent(event)
        was_click = self._pressed is not None and not self._is_dragging
        self._pressed = None
        if was_click:
            menu = QMenu(self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            self._fill(menu)
            menu.popup(self.mapToGlobal(self.rect().bottomLeft()))
