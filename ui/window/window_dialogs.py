"""The windows beside the main one, the choice of a session to open, and the list of sessions that were not closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.units import bytes_text
from ui.runs.run_list import RunList
from ui.settings.toolbar import Toolbar
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import INFO, WARNING, MessageBar

if TYPE_CHECKING:
    from evprof.session.autosave import Autosaved

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
        """Opens the list."""
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
        """The session whose line is chosen."""
        return Path(self.list.currentItem().data(Qt.ItemDataRole.UserRole)) if self.list.count() else None

    def take_chosen(self) -> None:
        """Takes a removed session out of the list; an empty one closes."""
        self.list.takeItem(self.list.currentRow())
        if not self.list.count():
            self.close()
