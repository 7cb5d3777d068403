"""The line at the foot of the window: the engine's state, what is selected, and where the session lives."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from evprof.core.protocols import (
    SILENT,
    EngineChanged,
    Message,
    RequestEnded,
    RunDescribed,
    RunEnded,
    RunStarted,
    SetupProgressed,
)
from evprof.core.records import MemoryRecord
from evprof.core.units import bytes_text, count_text
from evprof.view.timescale import time_text
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import SMALL_PX, ThemeHolder
from ui.widgets.drawn import show_tip
from ui.widgets.label import elided_text

HEIGHT_PX = 26

WAITING = "waiting"
"""The fact that says how many runs wait in the queue."""

_MEMORY_TIP = "Memory of the engine process, and of the GPU where there is one, as sampled last (10 times a second)."

_FACT_GAP = 24
_LEAST_LEFT = 0.4
"""Share of the width that is kept for what the engine does."""


class StatusBar(QWidget):
    """Painted in one go, so that changing figures never move anything.

    Signals:
        clicked(str): the name of the fact that was clicked.
    """

    clicked = Signal(str)

    def __init__(self, selection: Selection, holder: ThemeHolder) -> None:
        super().__init__()
        self._selection = selection
        self._holder = holder
        self._state = "gone"
        self._sentence = "engine not started"
        self._device = ""
        self.environment: dict[str, Any] = {}
        self._run = ""
        self._progress: tuple[str, int, int] | None = None
        self._work = ""
        self._work_share: float | None = None
        self._session = ""
        self._facts: dict[str, tuple[str, str]] = {}
        self._places: list[tuple[QRectF, str]] = []
        self.setAccessibleName("Status")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        selection.chosen_changed.connect(self.update)
        holder.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        return QSize(300, HEIGHT_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, HEIGHT_PX)

    def set_session(self, text: str) -> None:
        self._session = text
        self.update()

    def forget_runs(self) -> None:
        """Another session: what became of the last run of the one before is not said of it."""
        self._run = ""
        self.update()

    def show_work(self, text: str, share: float | None) -> None:
        """What goes on beside runs, in words, and how much of it is done (0…1); "" for nothing."""
        if (text, share) != (self._work, self._work_share):
            self._work, self._work_share = text, share
            self.update()

    def show_waiting(self, count: int) -> None:
        text = f"{count_text(count, 'run')} {'waits' if count == 1 else 'wait'}" if count else ""
        self.show_fact(WAITING, text, "In the queue, until what goes on has ended: click to see it (Ctrl+J)")

    def show_fact(self, name: str, text: str, tip: str) -> None:
        """Something that is known of the machine, in words, and from what; "" takes it away."""
        if self._facts.get(name, ("", tip)) != (text, tip):
            self._facts[name] = (text, tip)
            if not text:
                del self._facts[name]
            self.update()

    def fact_at(self, place: QPointF) -> str:
        """The name of the fact at a place; "" where there is none."""
        return next((name for box, name in self._places if box.contains(place)), "")

    def event(self, event: QEvent) -> bool:
        return show_tip(event, self, self._tip_at) or super().event(event)

    def _tip_at(self, place: QPoint) -> str:
        return self._facts.get(self.fact_at(QPointF(place)), ("", ""))[1]

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        name = self.fact_at(event.position())
        if name and event.button() == Qt.MouseButton.LeftButton:
            self.clicked.emit(name)

    def take(self, message: Message) -> None:
        """Follows the engine's and the runs' lifecycle."""
        match message:
            case EngineChanged():
                self._state = message.state
                self._sentence = _STATES.get(message.state, message.state)
                self.environment = message.environment or self.environment
                self._device = str(message.environment.get("device") or self._device)
                self._progress = None
            case SetupProgressed():
                self._progress = (message.role, message.done_bytes, message.total_bytes)
            case RunDescribed() if "start_ns" in message.facts:
                self._progress = None
            case RunStarted() if not message.info.is_over:
                self._run = f"run {message.run_id} · {message.info.mode}"
                self._progress = None
                self._state = "busy"
                self._sentence = _STATES["busy"]
            case RunEnded():
                self._run = f"run {message.run_id} {message.status}"
                self._progress = None
            case RequestEnded():
                self._state = "ready"
                self._sentence = _STATES["ready"]
            case _:
                return
        self.update()

    def text(self) -> str:
        """Everything it says, left to right."""
        return "   ".join(part for part in (*self._left_parts(), *self._right_parts(), self._session) if part)

    def _right_parts(self) -> list[str]:
        return [text for text, _ in self._facts.values()]

    def _left_parts(self) -> list[str]:
        parts = [f"{self._sentence} · {self._device}" if self._device else self._sentence, self._run]
        if self._progress is not None:
            role, done, total = self._progress
            share = f" of {bytes_text(total)}" if total else ""
            parts.append(f"loading {role} weights  {bytes_text(done)}{share}")
        parts.append(self._work)
        chosen = self._selection.time_range
        if chosen is not None:
            start, end = (time_text(t_ns) for t_ns in chosen)
            parts.append(f"range {start} – {end} · {time_text(chosen[1] - chosen[0])}")
        return [part for part in parts if part]

    def paintEvent(self, event: QPaintEvent) -> None:
        """A dot for the engine, then words; the session at the right."""
        theme = self._holder.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), theme.panel)
        painter.setPen(QPen(theme.line, 1))
        painter.drawLine(QPointF(0, 0.5), QPointF(self.width(), 0.5))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._dot())
        painter.drawEllipse(QPointF(16, self.height() / 2 + 0.5), 3.5, 3.5)
        font = theme.font(SMALL_PX)
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        right = elided_text(metrics, self._session, Qt.TextElideMode.ElideMiddle, self.width() * 0.4)
        right_width = metrics.horizontalAdvance(right)
        painter.setPen(theme.text_dim)
        edge = self._paint_facts(painter, metrics, self.width() - right_width - 13)
        room = QRectF(26, 0, max(0.0, edge - 26 - 24), self.height())
        text = elided_text(metrics, "      ".join(self._left_parts()), Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, text)
        painter.drawText(
            QRectF(self.width() - right_width - 13, 0, right_width + 1, self.height()),
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight,
            right,
        )
        share = self._work_share
        if self._progress is not None and self._progress[2]:
            share = min(1.0, self._progress[1] / self._progress[2])
        if share is not None:
            painter.fillRect(QRectF(0, 0, self.width() * share, 2), theme.accent)
        painter.end()

    def _paint_facts(self, painter: QPainter, metrics: QFontMetricsF, right: float) -> float:
        """What is known of the machine, to the left of the session; as much of it as fits. Returns the left edge."""
        self._places = []
        for name, (text, _) in self._facts.items():
            width = metrics.horizontalAdvance(text)
            if right - width - _FACT_GAP < self.width() * _LEAST_LEFT:
                break
            right -= width + _FACT_GAP
            box = QRectF(right, 0, width, self.height())
            painter.drawText(box, Qt.AlignmentFlag.AlignVCenter, text)
            self._places.append((box, name))
        return right

    def _dot(self) -> QColor:
        theme = self._holder.theme
        return {"ready": theme.good, "busy": theme.accent, "starting": theme.warn, SILENT: theme.warn}.get(
            self._state, theme.text_dim
        )


_STATES = {
    "starting": "engine starting",
    "ready": "engine ready",
    "busy": "running",
    SILENT: "engine silent",
    "gone": "engine not running",
}


def show_memory(status: StatusBar, controller: RunController, run_ids: set[int]) -> None:
    """Shows the newest sample of the run that goes on."""
    run = controller.run(max(run_ids))
    # The last sample alone: objects of all of them, for a run that was long watched, take a tenth of a second.
    newest = None if run is None or run.info.is_over else run.newest("memory")
    if isinstance(newest, MemoryRecord):
        gpu = f" · GPU {bytes_text(newest.gpu_bytes)}" if newest.gpu_bytes >= 0 else ""
        status.show_fact("memory", f"{bytes_text(newest.rss_bytes)}{gpu}", _MEMORY_TIP)
