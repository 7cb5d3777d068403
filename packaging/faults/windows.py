"""A window that runs the bundled demo again and again, with nobody in front of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any


def offscreen_window(*, shows: bool = True) -> tuple[Any, Any, Any]:
    """The application, a window of it that nobody sees, and what holds its theme."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication

    from ui.style.theme import ThemeHolder, theme_named
    from ui.window.main_window import MainWindow

    application = QApplication.instance() or QApplication(["evprof"])
    holder = ThemeHolder(theme_named("dark"))
    window = MainWindow(holder)
    window.resize(1280, 800)
    if shows:
        window.show()
    return application, window, holder


def run_demos(
    engine_argv: Sequence[str],
    *,
    most: int | None = None,
    tokens: int = 24,
    on_run: Callable[[int], None] | None = None,
) -> int:
    """Shows a window offscreen and hands it a demo whenever it is idle, until `most` runs are over (None: for ever).

    `on_run` is called after each demo with how many runs there are.
    """
    from PySide6.QtCore import QTimer

    from evprof.core.recording import RecordLog
    from evprof.run.demo import demo_requests
    from evprof.run.processes.engine_host import EngineHost

    application, window, _ = offscreen_window(shows=False)
    requests = [
        replace(request, repeat=1, settings=replace(request.settings, max_new_tokens=tokens, ignore_eos=True))
        for request in demo_requests()
    ]

    def make_host(recording: RecordLog) -> EngineHost:
        host = EngineHost(engine_argv, recording)
        host.start()
        return host

    told = 0

    def go_on() -> None:
        nonlocal told
        if window.controller.is_busy or not window.controller.has_host:
            return
        made = len(window.controller.runs)
        if made > told:
            told = made
            if on_run is not None:
                on_run(made)
        if most is not None and made >= most:
            window.close()
            application.quit()
            return
        window.requests.submit(*requests)

    timer = QTimer()
    timer.setInterval(10)
    timer.timeout.connect(go_on)
    window.painted.connect(lambda: window.start_engine(make_host))
    window.painted.connect(timer.start)
    window.show()
    code: int = application.exec()
    return code
