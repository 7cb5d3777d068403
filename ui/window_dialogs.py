"""The windows beside the main one. Each is imported when it is first asked for: none may hold up the first paint."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from PySide6.QtWidgets import QDialog, QWidget

if TYPE_CHECKING:
    from ui.main_window import MainWindow

_Dialog = TypeVar("_Dialog", bound=QDialog)


class WindowDialogs:
    """Opens them; one that is open already comes to the front instead."""

    def __init__(self, window: MainWindow) -> None:
        self._window = window

    def show_keys(self) -> None:
        """Keys and mouse."""
        from ui.dialogs.shortcuts import ShortcutsDialog

        ShortcutsDialog(self._window.actions_by_name.gestures(), self._window).show()

    def show_about(self) -> None:
        """Version, device, libraries."""
        from ui.dialogs.about import AboutDialog

        AboutDialog(self._window.status.environment, self._window.holder, self._window).show()

    def show_distributions(self) -> None:
        """Times per token and accepted drafts."""
        from ui.dialogs.distributions import DistributionsDialog

        window = self._window
        shown = _visible(window, DistributionsDialog)
        _bring(shown or DistributionsDialog(window.controller, window.selection, window.holder, window))

    def show_comparison(self) -> None:
        """Configurations of any number of sessions."""
        from ui.dialogs.comparison import ComparisonDialog

        window = self._window
        shown = _visible(window, ComparisonDialog)
        _bring(shown or ComparisonDialog(window.session, window.controller, window.selection, window.holder, window))


def _visible(window: QWidget, kind: type[_Dialog]) -> _Dialog | None:
    return next((dialog for dialog in window.findChildren(kind) if dialog.isVisible()), None)


def _bring(dialog: QDialog) -> None:
    dialog.show()
    dialog.activateWindow()
