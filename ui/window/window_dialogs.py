"""Windows beside the main one: dialogs, the command palette, TensorBoard, and sessions that were not closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtCore import QObject, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QListWidget,
    QListWidgetItem,
    QMainWindow,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.units import bytes_text
from evprof.view.lanes import Track
from ui.palette.box import Found, Lookup, PaletteBox, best, runs_source, settings_source, spans_source, tokens_source
from ui.runs.run_list import RunList
from ui.samples.sample_list import SampleList
from ui.settings.toolbar import Toolbar
from ui.state.run_controller import RunController
from ui.state.run_following import RunFollowing
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.status.status_bar import StatusBar
from ui.style.theme import ThemeHolder
from ui.timeline.timeline_view import TimelineView
from ui.widgets.message_bar import INFO, KEPT, WARNING, MessageBar
from ui.window.actions import WindowActions

if TYPE_CHECKING:
    from evprof.run.tensorboard import TensorBoard
    from evprof.session.autosave import Autosaved
    from ui.window.exporting import Post

_Dialog = TypeVar("_Dialog", bound=QDialog)


class WindowParts(QMainWindow):
    """The parts of the main window that its dialogs use."""

    actions_by_name: WindowActions
    controller: RunController
    following: RunFollowing
    holder: ThemeHolder
    messages: MessageBar
    runs: RunList
    samples: SampleList
    selection: Selection
    session: WindowSession
    status: StatusBar
    timeline: TimelineView
    toolbar: Toolbar


class WindowDialogs:
    """Opens dialogs above the window; one that is open already comes to the front instead."""

    def __init__(self, window: WindowParts) -> None:
        self._window = window

    def ask_session(self) -> None:
        from evprof.session.autosave import autosave_folder

        session = self._window.session
        folder = autosave_folder() if session.path is None else session.path.parent
        start = str(folder) if folder.is_dir() else ""
        path, _ = QFileDialog.getOpenFileName(self._window, "Open session", start, "Sessions (*.evprof);;All files (*)")
        if path:
            session.open(Path(path))

    def show_keys(self) -> None:
        from ui.help.help_pages import ShortcutsDialog

        ShortcutsDialog(self._window.actions_by_name.gestures(), self._window).show()

    def show_about(self) -> None:
        from ui.help.about import AboutDialog

        AboutDialog(self._window.status.environment, self._window.holder, self._window).show()

    def show_distributions(self) -> None:
        from ui.distributions.window import DistributionsDialog

        window = self._window
        self._show(
            DistributionsDialog,
            lambda: DistributionsDialog(window.controller, window.selection, window.holder, window),
        )

    def show_clinic(self) -> None:
        from ui.clinic.window import ClinicDialog

        def make() -> ClinicDialog:
            window = self._window
            made = ClinicDialog(window.controller, window.selection, window.holder, window)
            made.run_asked.connect(window.toolbar.run_once)
            made.baseline_asked.connect(window.runs.offer_baseline)
            return made

        self._show(ClinicDialog, make)

    def show_comparison(self) -> None:
        from ui.comparison.window import ComparisonDialog

        def make() -> ComparisonDialog:
            window = self._window
            made = ComparisonDialog(window.session, window.controller, window.selection, window.holder, window)
            made.post_late = window.messages.post
            return made

        self._show(ComparisonDialog, make)

    def _show(self, kind: type[_Dialog], make: Callable[[], _Dialog]) -> None:
        dialog = next((shown for shown in self._window.findChildren(kind) if shown.isVisible()), None) or make()
        dialog.show()
        dialog.activateWindow()


SHOW = "Show them…"


class AbandonedSessions:
    """Looks for them on a thread, and says what it found in the message bar."""

    def __init__(self, session: WindowSession, messages: MessageBar, window: QWidget) -> None:
        self._session = session
        self._messages = messages
        self._window = window
        self.dialog: AbandonedDialog | None = None

    def look(self) -> None:
        """Clears old autosaved sessions away and tells what is left of killed programs."""
        from evprof.session.autosave import abandoned, clear_away

        self._session.in_background(lambda: (clear_away(), abandoned()), self._tell)

    def _tell(self, found: tuple[list[Autosaved], list[Autosaved]]) -> None:
        from evprof.session.autosave import told, told_removal

        removed, left = found
        if sentence := told_removal(removed):
            self._messages.post(sentence, INFO)
        if sentence := told(left):
            self._messages.post(sentence, WARNING, SHOW, lambda: self.show(left))

    def show(self, found: Sequence[Autosaved]) -> None:
        self._messages.dismiss()
        self.dialog = AbandonedDialog(found, self._window)
        self.dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.dialog.open_button.clicked.connect(self._open_chosen)
        self.dialog.discard_button.clicked.connect(self._discard_chosen)
        self.dialog.open()

    def _open_chosen(self) -> None:
        from evprof.session.autosave import take_up

        if self.dialog is None or (path := self.dialog.chosen) is None:
            return
        self.dialog.close()
        self._session.in_background(lambda: take_up(path), lambda _: self._session.open(path))

    def _discard_chosen(self) -> None:
        from evprof.session.autosave import discard

        if self.dialog is None or (path := self.dialog.chosen) is None:
            return
        try:
            discard(path)
        except UserError as error:
            self._messages.post(error.sentence)
            return
        self.dialog.take_chosen()


class AbandonedDialog(QDialog):
    """The list, the newest first."""

    def __init__(self, found: Sequence[Autosaved], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Sessions that were not closed")
        self.setMinimumWidth(460)
        self.list = QListWidget()
        self.list.setAccessibleName("Sessions that were not closed")
        for one in found:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.changed_s))
            item = QListWidgetItem(f"{when}    {bytes_text(one.nbytes)}")
            item.setData(Qt.ItemDataRole.UserRole, str(one.path))
            self.list.addItem(item)
        self.open_button, self.discard_button = QPushButton("Open"), QPushButton("Delete")
        self.discard_button.setToolTip("Removes the session and all that was recorded in it, for good.")
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.addButton(self.open_button, QDialogButtonBox.ButtonRole.ActionRole)
        buttons.addButton(self.discard_button, QDialogButtonBox.ButtonRole.DestructiveRole)
        buttons.rejected.connect(self.close)
        layout = QVBoxLayout(self)
        layout.addWidget(self.list)
        layout.addWidget(buttons)
        self.list.setCurrentRow(0)

    @property
    def chosen(self) -> Path | None:
        return Path(self.list.currentItem().data(Qt.ItemDataRole.UserRole)) if self.list.count() else None

    def take_chosen(self) -> None:
        """Takes a removed session out of the list; an empty one closes."""
        self.list.takeItem(self.list.currentRow())
        if not self.list.count():
            self.close()


class WindowPalette:
    """The palette of actions (Ctrl+Shift+P) and of everything in the shown runs (/), read when something is typed."""

    def __init__(self, window: WindowParts) -> None:
        selection, toolbar = window.selection, window.toolbar
        self.box = PaletteBox(window.holder, window, window.timeline)

        def tracks() -> list[Track]:
            return [track for _, track in window.timeline.scene.shown]

        controls = {key: control for key, control in toolbar.form.controls.items() if control.has_control}
        runs = runs_source(window.controller, window.following.show_run)
        settings = settings_source(controls, toolbar.open_setting)
        actions = Lookup("Actions", lambda query: best(query, _actions(window.actions_by_name)))
        samples = Lookup("Samples", lambda query: best(query, _samples(window.samples)))
        self._commands = [actions, settings, runs]
        self._things = [spans_source(tracks, selection), tokens_source(tracks, selection), runs, samples, settings]

    def show_commands(self) -> None:
        self.box.ask(self._commands, "What to do: an action, a setting, a run")

    def show_things(self) -> None:
        """Asks for a span, a word of an answer, a run, a sample or a setting."""
        self.box.ask(self._things, "Find a span, a word of an answer, a run, a sample, a setting")


def _actions(actions: WindowActions) -> Iterator[Found]:
    for action in actions.by_name.values():
        if action.isEnabled():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield Found(action.text(), action.trigger, keys)


def _samples(samples: SampleList) -> Iterator[Found]:
    for sample in samples.samples:
        yield Found(sample.whole_name, partial(samples.sample_chosen.emit, sample), second=sample.prompt)


class TraceViewer(QObject):
    """At most one TensorBoard at a time; it ends with the window."""

    def __init__(self, session: WindowSession, controller: RunController, post: Post) -> None:
        super().__init__(controller)
        self._session = session
        self._controller = controller
        self._post = post
        self._board: TensorBoard | None = None
        self._is_starting = False

    @property
    def newest(self) -> Path | None:
        # Only of profiled runs the path is asked for: of a stored run it stands in its own row alone.
        infos = (run.info for run in self._controller.runs.values() if run.info.profiled)
        paths = [info.trace_path for info in infos if info.trace_path]
        return Path(paths[-1]) if paths else None

    def folder_for_traces(self) -> Path:
        """Where new traces go: beside a named session, otherwise into the user's data folder."""
        if self._session.path is not None:
            return self._session.path.with_name(f"{self._session.path.stem}-traces")
        from evprof.session.autosave import autosave_folder

        return autosave_folder().with_name("traces")

    def open(self) -> None:
        """Starts TensorBoard in the background and opens its page when it answers."""
        newest = self.newest
        if newest is None:
            self._post("There is no torch trace in this session; switch on Trace and press Run.", "warn")
            return
        if self._is_starting:
            return
        self.close()
        self._is_starting = True
        folder = newest if newest.is_dir() else newest.parent.parent
        self._post("TensorBoard is starting; its page opens when it answers.", "info")
        self._session.in_background(lambda: _start(folder), self._show)

    def _show(self, outcome: object) -> None:
        self._is_starting = False
        if isinstance(outcome, str):
            self._post(outcome)
            return
        self._board = outcome  # type: ignore[assignment]  # the other half of _start's answer
        if self._board is not None:
            QDesktopServices.openUrl(QUrl(self._board.url))
            self._post(f"TensorBoard answers at {self._board.url}", KEPT)

    def close(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            board.close()


def _start(folder: Path) -> TensorBoard | str:
    from evprof.core.errors import UserError
    from evprof.run.tensorboard import open_tensorboard

    try:
        return open_tensorboard(folder)
    except UserError as error:
        return error.sentence
