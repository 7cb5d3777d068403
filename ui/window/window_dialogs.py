"""Windows beside the main one: dialogs, the palette, and sessions that were not closed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QFileDialog, QMainWindow, QMessageBox, QWidget

from evprof.core.units import count_text
from ui.palette.box import Found, Lookup, PaletteBox, best, runs_source, settings_source
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
from ui.widgets.message_bar import INFO, WARNING, MessageBar
from ui.widgets.text_dialogs import show_once
from ui.window.actions import WindowActions
from ui.work.long_work import LongWork

if TYPE_CHECKING:
    from evprof.session.autosave import Autosaved


class WindowParts(QMainWindow):
    """The parts of the main window that its dialogs use."""

    actions_by_name: WindowActions
    controller: RunController
    following: RunFollowing
    holder: ThemeHolder
    long_work: LongWork
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

    def may_quit(self) -> bool:
        """Whether nothing is being measured, or a person ends it."""
        window = self._window
        waiting = len(window.controller.waiting)
        if not (window.controller.is_busy or waiting or window.long_work.queue.at_work is not None):
            return True
        more = f" {count_text(waiting, 'run')} in the queue will not begin." if waiting else ""
        sentence = f"A measurement is not finished. What was measured so far is kept.{more}"
        buttons = QMessageBox.StandardButton.Close | QMessageBox.StandardButton.Cancel
        asked = QMessageBox.question(
            window, "Quit during a measurement?", sentence, buttons, QMessageBox.StandardButton.Cancel
        )
        return asked == QMessageBox.StandardButton.Close

    def show_keys(self) -> None:
        from ui.help.help_pages import ShortcutsDialog

        ShortcutsDialog(self._window.actions_by_name.gestures(), self._window).show()

    def show_about(self) -> None:
        from ui.help.about import AboutDialog

        AboutDialog(self._window.status.environment, self._window.holder, self._window).show()

    def show_distributions(self) -> None:
        from ui.distributions.window import DistributionsDialog

        window = self._window
        context = window.controller, window.selection, window.holder, window
        show_once(window, DistributionsDialog, lambda: DistributionsDialog(*context))

    def show_clinic(self) -> None:
        from ui.clinic.window import ClinicDialog

        def make() -> ClinicDialog:
            window = self._window
            made = ClinicDialog(window.controller, window.selection, window.holder, window)
            made.run_asked.connect(window.toolbar.run_once)
            made.baseline_asked.connect(window.runs.offer_baseline)
            return made

        show_once(self._window, ClinicDialog, make)

    def show_comparison(self) -> None:
        from ui.comparison.window import ComparisonDialog

        window = self._window
        context = window.session, window.controller, window.selection, window.holder, window
        show_once(window, ComparisonDialog, lambda: ComparisonDialog(*context)).post_late = window.messages.post


class AbandonedSessions:
    """Looks for sessions of killed programs on a thread, and offers them in the message bar."""

    def __init__(self, session: WindowSession, messages: MessageBar, window: QWidget) -> None:
        self._session = session
        self._messages = messages
        self._window = window

    def look(self) -> None:
        """Removes old autosaved sessions and reports those of killed programs."""
        from evprof.session.autosave import abandoned, clear_away

        self._session.in_background(lambda: (clear_away(), abandoned()), self._tell)

    def _tell(self, found: tuple[list[Autosaved], list[Autosaved]]) -> None:
        from evprof.session.autosave import told, told_removal

        removed, left = found
        if sentence := told_removal(removed):
            self._messages.post(sentence, INFO)
        if sentence := told(left):
            self._messages.post(sentence, WARNING, "Open one…", self.ask)

    def ask(self) -> None:
        from evprof.session.autosave import autosave_folder

        title = "Open a session that was not closed"
        path, _ = QFileDialog.getOpenFileName(self._window, title, str(autosave_folder()), "Sessions (*.evprof)")
        if path:
            self._session.open(Path(path))


def trace_folder(session: WindowSession) -> Path:
    """The folder of new torch traces: beside a named session, otherwise in the user's data folder."""
    if session.path is not None:
        return session.path.with_name(f"{session.path.stem}-traces")
    from evprof.session.autosave import autosave_folder

    return autosave_folder().with_name("traces")


class WindowPalette:
    """The palette of actions, settings, runs and samples (Ctrl+Shift+P)."""

    def __init__(self, window: WindowParts) -> None:
        toolbar = window.toolbar
        self.box = PaletteBox(window.holder, window, window.timeline)
        controls = {key: control for key, control in toolbar.form.controls.items() if control.has_control}
        self._sources = [
            Lookup("Actions", lambda query: best(query, _actions(window.actions_by_name))),
            settings_source(controls, toolbar.open_setting),
            runs_source(window.controller, window.following.show_run),
            Lookup("Samples", lambda query: best(query, _samples(window.samples))),
        ]

    def show(self) -> None:
        self.box.ask(self._sources, "What to do: an action, a setting, a run, a sample")


def _actions(actions: WindowActions) -> Iterator[Found]:
    for action in actions.by_name.values():
        if action.isEnabled():
            keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
            yield Found(action.text(), action.trigger, keys)


def _samples(samples: SampleList) -> Iterator[Found]:
    for sample in samples.samples:
        yield Found(sample.whole_name, partial(samples.sample_chosen.emit, sample), second=sample.prompt)
