"""The line at the foot of the window: the engine's state, the work that goes on, the selection, and the session."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QProgressBar, QPushButton, QSizePolicy

from evprof.core.protocols import (
    EngineChanged,
    Message,
    RequestEnded,
    RunDescribed,
    RunEnded,
    RunStarted,
    SetupProgressed,
)
from evprof.core.records import MemoryRecord
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, count_text
from evprof.view.timescale import time_text
from ui.state.selection import Selection
from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role
from ui.widgets.label import Label
from ui.widgets.panel_parts import ToneLabel

HEIGHT_PX = 26

_STATES = {
    "starting": ("engine starting", "warn"),
    "ready": ("engine ready", "good"),
    "busy": ("running", "accent"),
    "gone": ("engine not running", "dim"),
}
"""By state: the text and the role of the dot."""


class StatusBar(QFrame):
    """Follows the messages of the engine, and has what other parts of the window report.

    Signals:
        queue_asked(): the number of waiting runs was clicked.
    """

    queue_asked = Signal()

    def __init__(self, selection: Selection) -> None:
        super().__init__()
        self._selection = selection
        self._state = "gone"
        self._device = self._run = self._work = self._activity = ""
        self.environment: dict[str, Any] = {}
        self._loading: tuple[str, int, int] | None = None
        self._work_share: float | None = None
        self.setAccessibleName("Status")
        self.setFixedHeight(HEIGHT_PX)
        in_role(self, "panel")
        self._dot = ToneLabel(wraps=False, alignment=Qt.AlignmentFlag.AlignVCenter)
        self._left, self._memory, self._session = (in_role(Label(), "small") for _ in range(3))
        self._left.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._memory.setToolTip("Memory of the engine process, and of the GPU where there is one (10 samples a second)")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setRange(0, 1000)
        self._bar.setFixedWidth(12 * GRID)
        self._waiting = in_role(QPushButton(), "link")
        self._waiting.setToolTip("Waits in the queue (Ctrl+J)")
        self._waiting.clicked.connect(self.queue_asked)
        parts = (self._dot, (self._left, 1), self._bar, self._waiting, self._memory, self._session)
        beside(*parts, on=self, margins=(12, 0, 12, 0), spacing=2 * GRID)
        selection.chosen_changed.connect(self._show)
        self.show_waiting(0)
        self._show()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, HEIGHT_PX)

    def set_session(self, text: str) -> None:
        self._session.setText(text)

    def forget_runs(self) -> None:
        """Removes the last run of the session before."""
        self._run = ""
        self._show()

    def show_work(self, text: str, share: float | None) -> None:
        """Shows long work, and the share of it that is done (0…1); "" for none."""
        if (text, share) != (self._work, self._work_share):
            self._work, self._work_share = text, share
            self._show()

    def show_activity(self, text: str) -> None:
        """Shows what the window waits for; "" for nothing."""
        self._activity = text
        self._show()

    def show_waiting(self, count: int) -> None:
        self._waiting.setText(f"{count_text(count, 'run')} {'waits' if count == 1 else 'wait'}")
        self._waiting.setVisible(count > 0)

    def show_memory(self, run: RunLog | None) -> None:
        """Shows the newest sample of a run that goes on."""
        # `newest` makes one object; objects of all samples take a tenth of a second for a long run.
        newest = None if run is None or run.info.is_over else run.newest("memory")
        if isinstance(newest, MemoryRecord):
            gpu = f" · GPU {bytes_text(newest.gpu_bytes)}" if newest.gpu_bytes >= 0 else ""
            self._memory.setText(f"{bytes_text(newest.rss_bytes)}{gpu}")

    def take(self, message: Message) -> None:
        """Follows the lifecycle of the engine and of runs."""
        match message:
            case EngineChanged():
                self._state = message.state
                self.environment = message.environment or self.environment
                self._device = str(message.environment.get("device") or self._device)
                self._loading = None
            case SetupProgressed():
                self._loading = (message.role, message.done_bytes, message.total_bytes)
            case RunDescribed() if "start_ns" in message.facts:
                self._loading = None
            case RunStarted() if not message.info.is_over:
                self._run = f"run {message.run_id} · {message.info.mode}"
                self._loading = None
                self._state = "busy"
            case RunEnded():
                self._run = f"run {message.run_id} {message.status}"
                self._loading = None
            case RequestEnded():
                self._state = "ready"
            case _:
                return
        self._show()

    def text(self) -> str:
        """All texts, left to right."""
        waiting = "" if self._waiting.isHidden() else self._waiting.text()
        parts = (self._left.text(), waiting, self._memory.text(), self._session.text())
        return "   ".join(filter(None, parts))

    def _show(self, *_: object) -> None:
        state, role = _STATES.get(self._state, (self._state, "dim"))
        parts = [f"{state} · {self._device}" if self._device else state, self._run, self._work, self._activity]
        share = self._work_share
        if self._loading is not None:
            model, done, total = self._loading
            parts.append(f"loading {model} weights  {bytes_text(done)}{f' of {bytes_text(total)}' if total else ''}")
            share = min(1.0, done / total) if total else None
        if (chosen := self._selection.time_range) is not None:
            start, end = time_text(chosen.start_ns), time_text(chosen.end_ns)
            parts.append(f"range {start} – {end} · {time_text(chosen.end_ns - chosen.start_ns)}")
        self._dot.say("●", role)
        self._left.setText("      ".join(dict.fromkeys(filter(None, parts))))
        self._bar.setVisible(share is not None)
        self._bar.setValue(round(1000 * (share or 0.0)))
