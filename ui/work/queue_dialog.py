"""The queue: what goes on, what waits for it, and what became of the rest."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QProgressBar, QPushButton, QWidget

from evprof.core.request import RunRequest
from ui.run_facts.run_text import mode_name
from ui.state.run_controller import RunController, WaitingRun
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.label import Label
from ui.widgets.panel_parts import ToneLabel, scrolling, section_head
from ui.widgets.problems import ProblemsDialog
from ui.work.work_queue import DONE, FAILED, STOPPED, STOPPING, WAITING, WorkItem, WorkQueue

_EMPTY = (
    "Suites, conversions and training that were started from the menu stand here with how far they are, and runs that "
    "wait for another one to end. One goes on at a time, so that none disturbs what another one measures."
)

_TONES = {FAILED: "bad", STOPPED: "warn", DONE: "good"}


def _title(request: RunRequest) -> str:
    return " · ".join(part for part in (mode_name(request.mode), request.sample.name) if part)


class _Entry(QWidget):
    """A title, its state, how far it is, and what can be done with it."""

    def __init__(self, title: str, actions: list[tuple[str, Callable[[], object]]]) -> None:
        super().__init__()
        self.title = title
        name = Label(title)
        name.setWordWrap(True)
        self.state = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 1000)
        self.bar.hide()
        buttons = []
        for text, work in actions:
            button = in_role(QPushButton(text), "link")
            button.setAccessibleName(f"{text}: {title}")
            button.clicked.connect(lambda _=False, work=work: work())
            buttons.append(button)
        stacked(beside((name, 1), *buttons, spacing=2 * GRID), self.state, self.bar, on=self, spacing=2)

    def show_item(self, item: WorkItem) -> None:
        """Shows how far it is."""
        self.state.say(item.told(), _TONES.get(item.state, "dim"))
        share = item.progress.share if item.progress is not None and not item.is_over else None
        self.bar.setVisible(share is not None)
        if share is not None:
            self.bar.setValue(round(1000 * share))


class QueueDialog(QDialog):
    """Lists the queue. Does not block the window.

    Signals:
        open_asked(object): what came of a WorkItem is to be opened.
        again_asked(object): a WorkItem that failed is to be tried again, with something else given perhaps.
    """

    open_asked = Signal(object)
    again_asked = Signal(object)

    def __init__(
        self, queue: WorkQueue, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._queue, self._controller = queue, controller
        self.setWindowTitle("Queue")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumSize(440, 280)
        self.resize(560, 420)
        self.empty = EmptyState("Nothing waits", _EMPTY, "Measure a suite…", does="measure_suite")
        self._ground = QWidget()
        self._column = stacked(on=self._ground, margins=(0, 0, GRID, 0), spacing=2 * GRID)
        self._shown: list[object] = []
        self.entries: list[tuple[WorkItem | WaitingRun | None, _Entry]] = []
        area = scrolling(self._ground)
        margins = (2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        stacked(self.empty, (area, 1), on=self, margins=margins)
        self._area = area
        queue.changed.connect(self.refresh)
        controller.waiting_changed.connect(self.refresh)
        controller.busy_changed.connect(self.refresh)
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Shows the queue as it is now; what only went on a little is changed in place."""
        state: list[object] = [self._controller.is_busy, *self._controller.waiting]
        state += [(id(item), item.state) for item in self._queue.items]
        if state != self._shown:
            self._shown = state
            self._make()
        for item, entry in self.entries:
            if isinstance(item, WorkItem):
                entry.show_item(item)

    def _make(self) -> None:
        while self._column.count():
            taken = self._column.takeAt(0)
            widget = taken.widget() if taken is not None else None
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        self.entries = []
        items = self._queue.items
        now = [item for item in items if not item.is_over and item.state != WAITING]
        if self._controller.is_busy:
            self._head("Now")
            request = self._controller.at_work
            title = "A run" if request is None else _title(request)
            self._add(None, _Entry(title, [("Stop", self._controller.stop)]))
        elif now:
            self._head("Now")
            self._add(now[0], self._entry(now[0]))
        waiting = [item for item in items if item.state == WAITING]
        if waiting or self._controller.waiting:
            self._head("Next")
        for run in self._controller.waiting:
            self._add(run, self._run_entry(run))
        for item in waiting:
            self._add(item, self._entry(item))
        over = [item for item in reversed(items) if item.is_over]
        if over:
            self._head("Before")
        for item in over:
            self._add(item, self._entry(item))
        self._column.addStretch(1)
        self.empty.setVisible(not self.entries)
        self._area.setVisible(bool(self.entries))

    def _head(self, text: str) -> None:
        self._column.addWidget(section_head(text))

    def _add(self, item: WorkItem | WaitingRun | None, entry: _Entry) -> None:
        self.entries.append((item, entry))
        self._column.addWidget(entry)

    def _run_entry(self, run: WaitingRun) -> _Entry:
        controller = self._controller
        actions: list[tuple[str, Callable[[], object]]] = [("Remove", lambda: controller.remove_waiting(run))]
        if controller.waiting[0] is not run:
            actions.insert(0, ("Do next", lambda: controller.put_first(run)))
        return _Entry(_title(run.request), actions)

    def _entry(self, item: WorkItem) -> _Entry:
        queue = self._queue
        if item.state == WAITING:
            actions: list[tuple[str, Callable[[], object]]] = [("Remove", lambda: queue.remove(item))]
            if next(other for other in queue.items if other.state == WAITING) is not item:
                actions.insert(0, ("Do next", lambda: queue.put_first(item)))
        elif not item.is_over:
            actions = [("End it now" if item.state == STOPPING else "Stop", queue.stop)]
        else:
            actions = [("Details", lambda: self._show_details(item)), ("Remove", lambda: queue.remove(item))]
            if item.state == STOPPED:
                actions.insert(0, ("Go on", lambda: queue.go_on(item)))
            if item.state == FAILED:
                actions.insert(0, ("Try again…", lambda: self.again_asked.emit(item)))
            if item.made is not None:
                actions.insert(0, ("Open", lambda: self.open_asked.emit(item)))
        return _Entry(item.title, actions)

    def _show_details(self, item: WorkItem) -> None:
        ProblemsDialog(item.title, ["\n".join(item.lines)], self).show()
