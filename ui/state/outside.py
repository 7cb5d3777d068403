"""Files and pages that other programs show."""

from __future__ import annotations

import shutil
from functools import partial

from PySide6.QtCore import QProcess, QUrl
from PySide6.QtGui import QDesktopServices

from evprof.run.processes.giving_way import WINDOW


def open_outside(url: QUrl) -> bool:
    """Whether a program was started with it. A browser must not inherit the window's low priority."""
    opener = shutil.which("xdg-open") if WINDOW.is_lowered else None
    if opener is None:
        return QDesktopServices.openUrl(url)
    started, _ = WINDOW.start(partial(QProcess.startDetached, opener, [url.toString()]))
    return bool(started)
