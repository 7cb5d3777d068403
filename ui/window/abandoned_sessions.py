"""Sessions of programs that were killed: told once when the window opens, and listed to be opened or removed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QListWidgetItem, QPushButton, QVBoxLayout, QWidget

from evprof.core.errors import UserError
from evprof.core.units import bytes_text
from ui.state.window_session import WindowSession
from ui.widgets.message_bar import INFO, WARNING, MessageBar

if TYPE_CHECKING:
    from evprof.session.autosaved import Autosaved

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
        from evprof.session.autosaved import abandoned, clear_away

        self._session.in_background(lambda: (clear_away(), abandoned()), self._tell)

    def _tell(self, found: tuple[list[Autosaved], list[Autosaved]]) -> None:
        from evprof.session.autosaved import told, told_removal

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
        from evprof.session.autosaved import take_up

        if self.dialog is None or (path := self.dialog.chosen) is None:
            return
        self.dialog.close()
        self._session.in_background(lambda: take_up(path), lambda _: self._session.open(path))

    def _discard_chosen(self) -> None:
        from evprof.session.autosaved import discard

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
