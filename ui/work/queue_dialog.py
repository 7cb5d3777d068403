"""The queue: what goes on, what waits for it, and what became of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QProgressBar, QPushButton, QWidget

from ui.run_facts.run_text import request_title
from ui.state.run_controller import RunController, WaitingRun
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label
from ui.widgets.panel_parts import EmptyState, ToneLabel, scrolling, section_head
from ui.widgets.text_dialogs import FreeDialog, ProblemsDialog
from ui.work.work_queue import DONE, FAILED, STOPPED, STOPPING, WAITING, WorkItem, WorkQueue

_EMPTY = (
    "Suites, conversions and training appear here with their progress, and runs that wait for another one. "
    "One runs at a time, so that none disturbs a measurement."
)

_TONES = {FAILED: "bad", STOPPED: "warn", DONE: "good"}


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
        self.state.say(item.told(), _TONES.get(item.state, "dim"))
        share = item.progress.share if item.progress is not None and not item.is_over else None
        self.bar.setVisible(share is not None)
        if share is not None:
            self.bar.setValue(round(1000 * share))


class QueueDialog(FreeDialog):
    """Lists the queue.

    Signals:
        open_asked(object): what came of a WorkItem is to be opened.
        again_asked(object): a WorkItem that failed is to be tried again, with something else given perhaps.
    """

    open_asked = Signal(object)
    again_asked = Signal(object)

    def __init__(
        self, queue: WorkQueue, controller: RunController, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__("Queue", parent)
        self._queue, self._controller = queue, controller
        self.setMinimumSize(440, 280)
        self.resize(560, 420)
        self.empty = EmptyState("Nothing waits", _EMPTY, "Measure a suite…", does="measure_suite")
        self._ground = QWidget()
        self._column = stacked(on=self._ground, margins=(0, 0, GRID, 0), spacing=2 * GRID)
        self._shown: list[object] = []
        self.entries: list[tuple[WorkItem | WaitingRun | None, _Entry]] = []
        self._area = scrolling(self._ground)
        stacked(self.empty, (self._area, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
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
        while (taken := self._column.takeAt(0)) is not None:
            if (widget := taken.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        self.entries = []
        items, controller = self._queue.items, self._controller
        waiting = [item for item in items if item.state == WAITING]
        if controller.is_busy:
            title = "A run" if controller.at_work is None else request_title(controller.at_work)
            self._add("Now", [(None, _Entry(title, [("Stop", controller.stop)]))])
        else:
            self._add("Now", [(item, self._entry(item)) for item in items if not item.is_over and item not in waiting])
        runs = [(run, self._run_entry(run)) for run in controller.waiting]
        self._add("Next", [*runs, *((item, self._entry(item)) for item in waiting)])
        self._add("Finished", [(item, self._entry(item)) for item in reversed(items) if item.is_over])
        self._column.addStretch(1)
        self.empty.setVisible(not self.entries)
        self._area.setVisible(bool(self.entries))

    def _add(self, head: str, entries: Sequence[tuple[WorkItem | WaitingRun | None, _Entry]]) -> None:
        for widget in [section_head(head), *(entry for _, entry in entries)] if entries else []:
            self._column.addWidget(widget)
        self.entries += entries

    def _run_entry(self, run: WaitingRun) -> _Entry:
        controller = self._controller
        first = [("Do next", partial(controller.put_first, run))] if controller.waiting[0] is not run else []
        return _Entry(request_title(run.request), [*first, ("Remove", partial(controller.remove_waiting, run))])

    def _entry(self, item: WorkItem) -> _Entry:
        queue, remove = self._queue, ("Remove", partial(self._queue.remove, item))
        next_up = next((other for other in queue.items if other.state == WAITING), None)
        offered: list[tuple[bool, tuple[str, Callable[[], object]]]] = [
            (item.state == WAITING and item is not next_up, ("Do next", partial(queue.put_first, item))),
            (item.state == STOPPING, ("End it now", queue.stop)),
            (not item.is_over and item.state not in (WAITING, STOPPING), ("Stop", queue.stop)),
            (item.made is not None, ("Open", partial(self.open_asked.emit, item))),
            (item.state == STOPPED, ("Resume", partial(queue.go_on, item))),
            (item.state == FAILED, ("Try again…", partial(self.again_asked.emit, item))),
            (item.is_over, ("Details", lambda: ProblemsDialog(item.title, ["\n".join(item.lines)], self).show())),
            (item.is_over or item.state == WAITING, remove),
        ]
        return _Entry(item.title, [action for is_offered, action in offered if is_offered])
