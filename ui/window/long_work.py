"""Long work in the window: its forms, its queue, and the word when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtWidgets import QWidget

from evprof.run.works.work_form import WorkForm, Works
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import FAILURE, INFO, WARNING, MessageBar
from ui.work.work_queue import FAILED, STOPPED, WorkItem, WorkQueue


class LongWork:
    """Opens the forms and the queue, each once. Without `works` (pictures, tests) it says that there is none."""

    def __init__(
        self,
        window: QWidget,
        controller: RunController,
        holder: ThemeHolder,
        messages: MessageBar,
        open_paths: Callable[[Sequence[str]], object],
    ) -> None:
        self._window = window
        self._controller = controller
        self._holder = holder
        self._messages = messages
        self._open_paths = open_paths
        self._forms: dict[str, WorkForm] = {}
        self.queue = WorkQueue(controller, window)
        self.queue.ended.connect(self._tell)

    def offer(self, works: Works) -> None:
        """From now on this can be done."""
        self.queue.works = works

    def form(self, name: str) -> WorkForm | None:
        """The form of a kind of work."""
        if not self._forms and self.queue.works is not None:
            self._forms = {form.name: form for form in self.queue.works.forms()}
        return self._forms.get(name)

    def ask(self, name: str) -> None:
        """Asks what a kind of work is to do, and has it done."""
        from ui.work.work_dialog import WorkDialog

        form, works = self.form(name), self.queue.works
        if form is None or works is None:
            self._messages.post("Long work is started from the program's own window; run evprof.", WARNING)
            return
        dialog = WorkDialog(form, works.check, lambda values: self.begin(form, values), self._holder, self._window)
        dialog.show()

    def begin(self, form: WorkForm, values: dict[str, str] | object) -> None:
        """Puts it into the queue, and shows that."""
        self.queue.add(form, dict(values) if isinstance(values, dict) else {})
        self.show_queue()

    def show_queue(self) -> None:
        """What goes on and what waits."""
        from ui.work.queue_dialog import QueueDialog

        shown = next((found for found in self._window.findChildren(QueueDialog) if found.isVisible()), None)
        if shown is None:
            shown = QueueDialog(self.queue, self._controller, self._holder, self._window)
            shown.open_asked.connect(lambda path: self._open_paths([path]))
        shown.show()
        shown.activateWindow()

    def _tell(self, item: WorkItem) -> None:
        made = item.form.made(item.values)
        kind = {FAILED: FAILURE, STOPPED: WARNING}.get(item.state, INFO)
        reason = f": {item.sentence}" if item.state == FAILED and item.sentence else "."
        sentence = f"{item.title}: {item.state}{reason}"
        if item.state != FAILED and made is not None and Path(made).exists():
            self._messages.post(sentence, kind, "Open", lambda: self._open_paths([str(made)]))
        else:
            self._messages.post(sentence, kind, "Queue", self.show_queue)

    def close(self) -> None:
        """Ends what is at work."""
        self.queue.close()
