"""Small pictures of sessions, as the window showed them last: kept in the cache folder, the newest of them.

It knows no window; a picture is made there, written and read on threads.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from PySide6.QtCore import QByteArray, QSize, Qt
from PySide6.QtGui import QImage, QImageReader, QImageWriter

from evprof.core.files.user_folders import cache_folder

SIZE = QSize(320, 200)
"""In pixels; shown at half of it where the screen has one pixel a point."""

KEPT = 24

_LARGEST_BYTES = 1 << 20


def thumbnail_folder() -> Path:
    """Where they lie; it may not exist yet."""
    return cache_folder() / "thumbnails"


def keep_thumbnail(session: Path, picture: QImage) -> None:
    """Keeps a picture for a session; where it cannot be written there is none."""
    small = picture.scaled(
        SIZE, Qt.AspectRatioMode.KeepAspectRatioByExpanding, Qt.TransformationMode.SmoothTransformation
    ).copy(0, 0, SIZE.width(), SIZE.height())
    small.setDevicePixelRatio(1.0)
    path = _path(session)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        if QImageWriter(str(part), QByteArray(b"png")).write(small):
            part.replace(path)
        by_age = sorted(path.parent.glob("*.png"), key=lambda found: found.stat().st_mtime)
        for old in by_age[:-KEPT]:
            old.unlink(missing_ok=True)


def thumbnail(session: Path) -> QImage | None:
    """The picture of a session; None where there is none that is one of ours."""
    path = _path(session)
    with contextlib.suppress(OSError):
        if path.stat().st_size <= _LARGEST_BYTES:
            reader = QImageReader(str(path), b"png")
            if reader.size() == SIZE:
                found = reader.read()
                return None if found.isNull() else found
    return None


def _path(session: Path) -> Path:
    return thumbnail_folder() / f"{hashlib.sha256(str(session).encode('utf-8', 'surrogatepass')).hexdigest()[:24]}.png"
