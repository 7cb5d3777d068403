"""Starts runs and long work: forms, the queue, and the message at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication, QWidget

from evprof.core.errors import UserError
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.run.requests import demo_requests, requests_in_turns
from evprof.run.works.work_form import FORMS, MEASURE_SUITE, WorkForm, Works
from ui.state.current import NO_RUNS
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import FAILURE, INFO, WARNING, MessageBar
from ui.widgets.text_dialogs import show_once
from ui.work.work_queue import FAILED, STOPPED, WorkItem, WorkQueue

if TYPE_CHECKING:
    from ui.settings.toolbar import Toolbar
    from ui.state.run_following import RunFollowing


LEAST_S = 5.0
"""The end of a shorter run needs no attention."""


class LongWork:
    """Opens the forms and the queue, each once. Without `works` (pictures, tests) it says that there is none."""

    def __init__(
        self,
        window: QWidget,
        controller: RunController,
        holder: ThemeHolder,
        messages: MessageBar,
        *,
        open_paths: Callable[[Sequence[str]], None],
        show: Callable[[str, float | None], object],
        opened: Callable[[], tuple[Sequence[Sample], Mapping[str, ModelChoice]]] = lambda: ((), {}),
    ) -> None:
        """`show` takes what is at work, in words, and how much of it is done. `opened` gives the samples, the current
        one first, and the models that are chosen."""
        self._window = window
        self._controller = controller
        self._holder = holder
        self._messages = messages
        self._open_paths = open_paths
        self.queue = WorkQueue(controller, window)
        self.queue.ended.connect(self._tell)
        self.queue.changed.connect(self._show)
        self._show_text = show
        self._opened = opened
        self._busy_since = time.monotonic()
        controller.busy_changed.connect(self._note_busy)

    def offer(self, works: Works) -> None:
        self.queue.works = works

    def ask(self, name: str, given: Mapping[str, str] = MappingProxyType({})) -> None:
        """Opens the form of a kind of work; `given` is in its fields at first."""
        self._ask(next(form for form in FORMS if form.name == name), given)

    def _ask(self, form: WorkForm, given: Mapping[str, str]) -> None:
        from ui.work.work_dialog import WorkDialog, suite_form

        if (works := self.queue.works) is None:
            self._messages.post("Tasks need the program's own window: run evprof.", WARNING)
            return
        made = {item.form.name: item.values.get("output", "") for item in self.queue.items}
        values = {field.name: made[field.comes_from] for field in form.fields if field.comes_from in made}
        if form.name == MEASURE_SUITE:
            form, values = suite_form(form, works.suites(), *self._opened())
        dialog = WorkDialog(form, works, lambda chosen: self.begin(form, chosen), self._holder, self._window)
        dialog.runs = self._controller.runs
        for field, value in {**values, **given}.items():
            if field in dialog.rows:
                dialog.rows[field].give(value)
        dialog.show()

    def _ask_again(self, item: WorkItem) -> None:
        self._ask(item.form, {name: value for name, value in item.values.items() if value})

    def begin(self, form: WorkForm, values: Mapping[str, str]) -> None:
        self.queue.add(form, values)
        self.show_queue()

    def show_queue(self) -> None:
        from ui.work.queue_dialog import QueueDialog

        def make() -> QueueDialog:
            made = QueueDialog(self.queue, self._controller, self._holder, self._window)
            made.open_asked.connect(self._open)
            made.again_asked.connect(self._ask_again)
            return made

        show_once(self._window, QueueDialog, make)

    def _tell(self, item: WorkItem) -> None:
        kind = {FAILED: FAILURE, STOPPED: WARNING}.get(item.state, INFO)
        reason = f": {item.sentence}" if item.state == FAILED and item.sentence else "."
        sentence = f"{item.title}: {item.state}{reason}"
        following = next((form for form in FORMS if form.name == item.form.follows_up), None)
        if item.made is not None:
            self._messages.post(sentence, kind, "Open", lambda: self._open(item), about=item.title)
        elif following is not None and kind == INFO:
            ask = partial(self.ask, following.name)
            self._messages.post(sentence, kind, f"{following.title}…", ask, about=item.title)
        else:
            self._messages.post(sentence, kind, "Queue", self.show_queue, about=item.title)
        QApplication.alert(self._window)

    def _open(self, item: WorkItem) -> None:
        if item.made is None:
            self._messages.post(f"{item.form.made(item.values)} is not there any more.", WARNING, about=item.title)
        else:
            self._open_paths([str(item.made)])

    def _show(self) -> None:
        item = self.queue.at_work
        share = item.progress.share if item is not None and item.progress is not None else None
        self._show_text("" if item is None else f"{item.title} · {item.told()}", share)

    def _note_busy(self, is_busy: bool) -> None:
        """The window's entry in the task bar asks for attention after long runs."""
        now = time.monotonic()
        if is_busy:
            self._busy_since = now
        elif now - self._busy_since >= LEAST_S and not self._controller.waiting and self._controller.runs:
            QApplication.alert(self._window)

    def close(self) -> None:
        self.queue.close()


class Requests:
    """Hands requests over; `post` tells a refusal."""

    def __init__(
        self, controller: RunController, following: RunFollowing, toolbar: Toolbar, post: Callable[[str], object]
    ) -> None:
        self._controller = controller
        self._following = following
        self._toolbar = toolbar
        self._post = post

    def submit(self, *requests: RunRequest) -> None:
        """Hands requests over and brings their runs into view."""
        if not self._controller.is_busy:
            self._following.begin()
        self._hand_over(*requests)

    def measure_beside(self, requests: Sequence[RunRequest]) -> None:
        """The same, and the columns stay on what they show: what is measured is to be held against it."""
        self._toolbar.current.take_request(requests[0].sample)
        self._following.stay()
        self._hand_over(*requests)

    def run_demo(self) -> None:
        """Makes the bundled sample current and runs the bundled models on it (see `evprof.run.requests`)."""
        requests = demo_requests()
        self._toolbar.current.take_request(requests[0].sample, runs=NO_RUNS, cell="")
        self.submit(*requests_in_turns(requests))

    def _hand_over(self, *requests: RunRequest) -> None:
        try:
            self._controller.submit(*requests)
        except UserError as error:
            self._post(error.sentence)
