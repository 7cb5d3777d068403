"""What the window waits for, in one sentence: shown where a view would be empty meanwhile."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from evprof.core.protocols import BUSY, READY, EngineChanged, Message
from evprof.core.units import count_text
from ui.run_facts.run_text import request_title
from ui.state.run_controller import RunController


class Activity(QObject):
    """The activity that began last, else the start of the engine that a run waits for.

    Signals:
        changed(str, bool): the sentence, "" for none, and whether it blocks the next run.
    """

    changed = Signal(str, bool)

    def __init__(self, controller: RunController) -> None:
        super().__init__(controller)
        self._controller = controller
        self._going_on: dict[str, str] = {}
        self._blocking: set[str] = set()
        self._is_ready = False
        self.text = self._work = ""
        controller.message.connect(self._take)
        controller.waiting_changed.connect(self._refresh)
        controller.busy_changed.connect(self._refresh)

    def begin(self, what: str, *, blocks: bool = True) -> None:
        """Begins an activity. While one that `blocks` lasts, no run can begin."""
        self._going_on[what] = what
        self._blocking |= {what} if blocks else set()
        self._refresh()

    def update(self, what: str, progress: str) -> None:
        """Replaces the sentence of an activity by its progress."""
        if what in self._going_on:
            self._going_on[what] = progress
            self._refresh()

    def end(self, what: str) -> None:
        self._going_on.pop(what, None)
        self._refresh()

    def has(self, what: str) -> bool:
        return what in self._going_on

    def set_work(self, text: str) -> None:
        """Long work that uses the machine alone; "" for none."""
        self._work = text
        self._refresh()

    def _take(self, message: Message) -> None:
        if isinstance(message, EngineChanged):
            self._is_ready = message.state in (BUSY, READY)
        self._refresh()

    def _refresh(self, *_: object) -> None:
        text = next(reversed(self._going_on.values()), "") or self._work or self._start()
        if text != self.text:
            self.text = text
            self.changed.emit(text, not self._blocking.isdisjoint(self._going_on))

    def _start(self) -> str:
        """The start of the engine, or of the models, that the first run waits for."""
        controller = self._controller
        first = controller.at_work or next((run.request for run in controller.waiting), None)
        if first is None or (self._is_ready and controller.runs):
            return ""
        what = "Loading the models" if self._is_ready else "Starting the engine"
        later = len(controller.waiting) - (controller.at_work is None)
        return f"{what}, then {request_title(first)}" + (f" and {count_text(later, 'more run')}" if later else "")
