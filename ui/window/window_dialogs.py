"""The windows beside the main one, and the question which session to open.

Each is imported when it is first asked for: none may hold up the first paint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

if TYPE_CHECKING:
    from ui.window.main_window import MainWindow

_Dialog = TypeVar("_Dialog", bound=QDialog)


class WindowDialogs:
    """Opens them; one that is open already comes to the front instead."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window

    def ask_session(self) -> None:
        """Asks for a session and opens it."""
        from evprof.session.autosave import autosave_folder

        session = self._window.session
        folder = autosave_folder() if session.path is None else session.path.parent
        start = str(folder) if folder.is_dir() else ""
        path, _ = QFileDialog.getOpenFileName(self._window, "Open session", start, "Sessions (*.evprof);;All files (*)")
        if path:
            session.open(Path(path))

    def show_keys(self) -> None:
        """Keys and mouse."""
        from ui.window.shortcuts import ShortcutsDialog

        ShortcutsDialog(self._window.actions_by_name.gestures(), self._window).show()

    def show_about(self) -> None:
        """Version, device, libraries."""
        from ui.window.about import AboutDialog

        AboutDialog(self._window.status.environment, self._window.holder, self._window).show()

    def show_distributions(self) -> None:
        """Times per token and accepted drafts."""
        from ui.distributions.window import DistributionsDialog

        window = self._window
        shown = _visible(window, DistributionsDialog)
        _bring(shown or DistributionsDialog(window.controller, window.selection, window.holder, window))

    def show_clinic(self) -> None:
        """Acceptance and break-even."""
        from ui.clinic.window import ClinicDialog

        window = self._window
        shown = _visible(window, ClinicDialog)
        if shown is None:
            shown = ClinicDialog(window.controller, window.selection, window.holder, window)
            shown.run_asked.connect(self._run_once)
        _bring(shown)

    def _run_once(self, mode: str) -> None:
        """Runs what is open in a mode; the one that was chosen stays chosen."""
        toolbar = self._window.toolbar
        before = toolbar.form.wanted_mode
        toolbar.choose_mode(mode)
        toolbar.run()
        toolbar.choose_mode(before)

    def show_training(self) -> None:
        """Loss curves of trained adapters."""
        from ui.training.window import TrainingDialog

        window = self._window
        shown = _visible(window, TrainingDialog)
        _bring(shown or TrainingDialog(window.session, window.holder, window))

    def offer_training(self, *_: object) -> None:
        """Says of a session that was opened that it holds loss curves."""
        from ui.training.curves import training_curves

        count = len(training_curves(self._window.session.facts))
        if count:
            what = "the training of an adapter" if count == 1 else f"{count} trainings of adapters"
            self._window.messages.post(f"This session holds {what}.", "info", "Show curves", self.show_training)

    def show_comparison(self) -> None:
        """Configurations of any number of sessions."""
        from ui.comparison.window import ComparisonDialog

        window = self._window
        shown = _visible(window, ComparisonDialog)
        _bring(shown or ComparisonDialog(window.session, window.controller, window.selection, window.holder, window))


def _visible(window: QWidget, kind: type[_Dialog]) -> _Dialog | None:
    return next((dialog for dialog in window.findChildren(kind) if dialog.isVisible()), None)


def _bring(dialog: QDialog) -> None:
    dialog.show()
    dialog.activateWindow()
