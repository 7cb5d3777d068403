"""Files and pages that other programs show."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices


def open_outside(url: QUrl) -> bool:
    """Whether a program was started with it."""
    return QDesktopServices.openUrl(url)
