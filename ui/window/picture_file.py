"""A picture of the window as a file: whole or not at all, and never in a session's place."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray
from PySide6.QtGui import QImage, QImageWriter

from evprof.core.files.whole_file import whole_path


def save_picture(picture: QImage, out: Path) -> bool:
    """Writes a PNG; False when that fails. Raises UserError where a session lies at `out`."""
    try:
        with whole_path(out) as unfinished:
            if not QImageWriter(str(unfinished), QByteArray(b"png")).write(picture):
                raise OSError("Qt cannot write it")
    except OSError:
        return False
    return True
