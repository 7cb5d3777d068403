"""What a process does whose window's first paint is timed. It imports what `evprof gui` does, and nothing of the other
benchmarks."""

from __future__ import annotations

import json
import sys
import time

from PySide6.QtCore import QSettings, QTimer
from PySide6.QtWidgets import QApplication

from ui.style.theme import ThemeHolder, theme_named
from ui.window.main_window import MainWindow

SIZE = (1600, 1000)
PAINTED = "painted"


def paint_once(session: str = "") -> int:
    """Opens the window as `evprof gui` does, says so on standard output when it was painted, and ends.

    A session is opened first, as soon as the window is there; what that took is a line of JSON.
    """
    application = the_application()
    settings = QSettings("evprof", "evprof")
    window = MainWindow(ThemeHolder(theme_named("dark")), settings)
    window.resize(*SIZE)

    def tell() -> None:
        window.painted.disconnect(tell)
        sys.stdout.write(f"{PAINTED}\n")
        sys.stdout.flush()
        QTimer.singleShot(0, opens)

    def opens() -> None:
        if session:
            sys.stdout.write(json.dumps(_opened(application, window, session)) + "\n")
            sys.stdout.flush()
        window.close()
        application.quit()

    window.painted.connect(tell)
    window.show()
    return application.exec()


def _opened(application: QApplication, window: MainWindow, session: str) -> dict[str, float]:
    import psutil

    process = psutil.Process()
    before_bytes, wall_s, cpu_s = process.memory_info().rss, time.perf_counter(), time.process_time()
    window.open_paths([session], waits=True)
    window.controller.pull()
    window.repaint()
    paint_all(application)
    return {
        "first_picture_ms": 1000 * (time.perf_counter() - wall_s),
        "cpu_ms": 1000 * (time.process_time() - cpu_s),
        "rss_mb": process.memory_info().rss / 1e6,
        "grown_mb": (process.memory_info().rss - before_bytes) / 1e6,
    }


def paint_all(application: QApplication) -> None:
    application.processEvents()


def the_application() -> QApplication:
    existing = QApplication.instance()
    return existing if isinstance(existing, QApplication) else QApplication(["evprof"])
