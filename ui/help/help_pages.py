"""What the *Help* menu opens: pages from this disk, and the list of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from evprof.loaders.bundled import page_source, site_page
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID
from ui.widgets.boxes import stacked
from ui.widgets.text_dialogs import FreeDialog, ProblemsDialog

CONTENTS, TROUBLESHOOTING = "index", "troubleshooting"
"""The pages that the menu names."""

HOW_TO_BUILD = "The help pages are not built here; run make docs in the checkout, then choose this again."


class HelpPages:
    """Opens pages by name: those of the site in the browser, else their source in a window. `tell` shows a sentence."""

    def __init__(self, tell: Callable[[str], object], window: QWidget | None = None) -> None:
        self._tell = tell
        self._window = window

    def open(self, name: str) -> None:
        """Opens a page, or says in a sentence why not."""
        page, source = site_page(name), page_source(name)
        if page is not None and QDesktopServices.openUrl(QUrl.fromLocalFile(str(page))):
            return
        if source is not None:
            text = source.read_text(encoding="utf-8")
            ProblemsDialog(f"Help: {source}", [text], self._window).show()
        elif page is not None:
            self._tell(f"No browser opens the page. It is in {page}.")
        else:
            self._tell(HOW_TO_BUILD)


class ShortcutsDialog(FreeDialog):
    """Groups of keys or gestures, each with what it does; groups can be collapsed."""

    def __init__(self, groups: Sequence[tuple[str, Iterable[tuple[str, str]]]], parent: QWidget | None = None) -> None:
        super().__init__("Keys and mouse", parent)
        self.list = QTreeWidget()
        self.list.setAccessibleName("Keys and mouse")
        self.list.setColumnCount(2)
        self.list.setHeaderHidden(True)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        for head, gestures in groups:
            group = QTreeWidgetItem(self.list, [head])
            group.setFirstColumnSpanned(True)
            for keys, meaning in gestures:
                QTreeWidgetItem(group, [keys, meaning]).setToolTip(1, meaning)
        self.list.expandAll()
        stacked((self.list, 1), on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID))
        resize_in_room(self, 760, 720)
