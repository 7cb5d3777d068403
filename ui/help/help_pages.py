"""The documentation from the *Help* menu: in the browser, from this disk."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from evprof.loaders.help_pages import page_source, site_page

CONTENTS, TROUBLESHOOTING = "index", "troubleshooting"
"""The pages that the menu names."""

HOW_TO_BUILD = "The help pages are not built here; run make docs in the checkout, then choose this again."


class HelpPages:
    """Opens pages by name: those of the site, else their source, and says so. `tell` shows a sentence."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell

    def contents(self) -> None:
        """Opens the first page."""
        self.open(CONTENTS)

    def troubleshooting(self) -> None:
        """Opens the page of what may go wrong."""
        self.open(TROUBLESHOOTING)

    def open(self, name: str) -> None:
        """Opens a page, or says in a sentence why not."""
        page = site_page(name) or page_source(name)
        if page is None:
            self._tell(HOW_TO_BUILD)
        elif not QDesktopServices.openUrl(QUrl.fromLocalFile(str(page))):
            self._tell(f"No program here opens {page}; open it in a browser.")
