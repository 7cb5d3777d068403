"""The windows beside the main one, and the question which session to open.

Each is imported when it is first asked for: none may hold up the first paint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from ui.runs.run_list import RunList
from ui.settings.toolbar import Toolbar
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import MessageBar

_Dialog = TypeVar("_Dialog", bound=QDialog)


class WindowDialogs:
    """Opens them above `window`; one that is open already comes to the front instead."""

    def __init__(
        self,
        window: QWidget,
        session: WindowSession,
        controller: RunController,
        selection: Selection,
        holder: ThemeHolder,
        *,
        toolbar: Toolbar,
        messages: MessageBar,
        runs: RunList,
    ) -> None:
        self._window = window
        self._session = session
        self._controller = controller
        self._selection = selection
        self._holder = holder
        self._toolbar = toolbar
        self._messages = messages
        self._runs = runs

    def ask_session(self) -> None:
        """Asks for a session and opens it."""
        from evprof.session.autosave import autosave_folder

        folder = autosave_folder() if self._session.path is None else self._session.path.parent
        start = str(folder) if folder.is_dir() else ""
        path, _ = QFileDialog.getOpenFileName(self._window, "Open session", start, "Sessions (*.evprof);;All files (*)")
        if path:
            self._session.open(Path(path))

    def show_keys(self, gestures: Sequence[tuple[str, list[tuple[str, str]]]]) -> None:
        """Keys and mouse."""
        from ui.help.shortcuts import ShortcutsDialog

        ShortcutsDialog(gestures, self._window).show()

    def show_about(self, environment: dict[str, Any]) -> None:
        """Version, device, libraries."""
        from ui.help.about import AboutDialog

        AboutDialog(environment, self._holder, self._window).show()

    def show_distributions(self) -> None:
        """Times per token and accepted drafts."""
        from ui.distributions.window import DistributionsDialog

        self._show(
            DistributionsDialog,
            lambda: DistributionsDialog(self._controller, self._selection, self._holder, self._window),
        )

    def show_clinic(self) -> None:
        """Acceptance and break-even."""
        from ui.clinic.window import ClinicDialog

        def make() -> ClinicDialog:
            made = ClinicDialog(self._controller, self._selection, self._holder, self._window)
            made.run_asked.connect(self._toolbar.run_once)
            made.baseline_asked.connect(self._runs.offer_baseline)
            return made

        self._show(ClinicDialog, make)

    def show_comparison(self) -> None:
        """Configurations of any number of sessions."""
        from ui.comparison.window import ComparisonDialog

        def make() -> ComparisonDialog:
            made = ComparisonDialog(self._session, self._controller, self._selection, self._holder, self._window)
            made.post_late = self._messages.post
            return made

        self._show(ComparisonDialog, make)

    def _show(self, kind: type[_Dialog], make: Callable[[], _Dialog]) -> None:
        dialog = next((shown for shown in self._window.findChildren(kind) if shown.isVisible()), None) or make()
        dialog.show()
        dialog.activateWindow()
