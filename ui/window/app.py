"""Starts the window, or draws it once into a picture without a display."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from PySide6.QtCore import (
    QCoreApplication,
    QDeadlineTimer,
    QEvent,
    QMessageLogContext,
    QSettings,
    Qt,
    QThread,
    QTimer,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.run.works.work_form import Works
from ui.defects.defect_net import CrashDialog, DefectNet, FaultFile, Report, crashed_windows
from ui.state.run_controller import Host
from ui.style.icons import window_icon
from ui.style.screen_fit import fit_to_screen, room_on_screen
from ui.style.theme import ThemeHolder, theme_named
from ui.widgets.drawn import picture_of
from ui.widgets.message_bar import WARNING
from ui.window.exporting import save_picture
from ui.window.main_window import MainWindow

logger = logging.getLogger(__name__)

_DEMO = "Starting the engine, then the demo"
DEMO_PATIENCE_MS = 1_500
"""How long the demo waits for the first pictures of its sample."""

_LEAST_SETTLING_MS, _SETTLING_MS = 400, 20_000
"""How long a window that is to be drawn has to come to rest: at least, and at most where a machine is slow."""

_LAYOUT_PASSES = 10
"""A panel whose height follows from its width takes several passes."""


def run_window(
    paths: Sequence[str],
    *,
    engine_argv: Sequence[str],
    theme: str | None = None,
    size: tuple[int, int] | None = None,
    demo: bool = False,
    report: Report | None = None,
    works: Works | None = None,
    before_files: Callable[[], object] = lambda: None,
) -> int:
    """Shows the window until it is closed and returns the exit code.

    `engine_argv` starts an engine process; that happens after the first paint. `demo` runs the bundled demo at once.
    `theme` None is what was chosen last. `works` is the long work that can be started.
    `before_files` is called after the first paint, before any file is opened.
    """
    application = _application()
    application.setWindowIcon(window_icon())
    settings = QSettings("evprof", "evprof")
    holder = ThemeHolder(theme_named(theme or str(settings.value("window/theme", "dark"))))
    window = MainWindow(holder, settings)
    if theme is not None:
        holder.set_theme(theme_named(theme))
    if size is not None:
        window.resize(*size)
    else:
        fit_to_screen(window, room_on_screen(window))

    def begin() -> None:
        before_files()
        if works is not None:
            window.long_work.offer(works)
        _begin(window, paths, engine_argv, demo=demo)

    with _watched(window, report):
        if not paths and not demo:
            window.welcome.page.open()
        window.painted.connect(begin)
        window.show()
        code = application.exec()
    holder.detach()
    return code


@contextmanager
def _watched(window: MainWindow, report: Report | None) -> Iterator[None]:
    """What nobody expected is caught and told; what breaks Python off is written down."""
    net = DefectNet(window, report, window.controller)
    net.refused.connect(window.messages.post)
    net.spread()
    fault_file = FaultFile()
    fault_file.open()
    before = signal.signal(signal.SIGTERM, lambda *_: QTimer.singleShot(0, window, window.leave))
    yield
    signal.signal(signal.SIGTERM, before)
    net.fold()
    fault_file.close()


def _begin(window: MainWindow, paths: Sequence[str], engine_argv: Sequence[str], *, demo: bool) -> None:

    def make_host(recording: RecordLog) -> Host:
        from evprof.run.processes.engine_host import EngineHost

        host = EngineHost(engine_argv, recording)
        host.start()
        return host

    window.welcome.look_up()
    window.start_engine(make_host)
    window.abandoned.look()
    window.session.in_background(crashed_windows, partial(_tell_crashes, window))
    window.open_paths(paths)
    if demo:
        window.activity.begin(_DEMO)
        _run_demo_soon(window)


def _tell_crashes(window: MainWindow, reports: Sequence[Path]) -> None:
    if reports:
        head, sentence = "evprof crashed when it was open last", "Something outside Python broke it off."
        told = f"{head}; where it was then is in {reports[0]}."

        def show() -> None:
            CrashDialog(head, sentence, reports[0], window).show()

        window.messages.post(told, WARNING, "Show report", show)


def _run_demo_soon(window: MainWindow, deadline: QDeadlineTimer | None = None) -> None:
    """Runs the demo once the sample's pictures stand: the players rest while a run is measured."""
    deadline = deadline or QDeadlineTimer(DEMO_PATIENCE_MS)
    if window.is_at_rest or deadline.hasExpired():
        window.activity.end(_DEMO)
        window.requests.run_demo()
    else:
        QTimer.singleShot(20, window, lambda: _run_demo_soon(window, deadline))


def save_screenshot(
    paths: Sequence[str], out: Path, *, size: tuple[int, int] = (1600, 1000), theme: str = "dark", scale: float = 1.0
) -> None:
    """Draws the window once, with a session or samples opened, into a PNG of `size` × `scale` px.

    Raises UserError when a path cannot be opened or the picture cannot be written.
    """
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    application = _application()
    holder = ThemeHolder(theme_named(theme))
    window = MainWindow(holder)
    window.resize(*size)
    window.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    window.show()
    window.open_paths(paths, waits=True)
    settle(application, window)
    try:
        save_picture(picture_of(window, scale), out)
    finally:
        window.close()
        window.deleteLater()
        application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        holder.detach()


def settle(application: QApplication, window: MainWindow) -> None:
    """Lets layouts, pictures of frames and late timers come to rest, so that a picture shows everything."""
    deadline, least = QDeadlineTimer(_SETTLING_MS), QDeadlineTimer(_LEAST_SETTLING_MS)
    window.controller.pull()
    while not deadline.hasExpired():
        application.processEvents()
        if window.is_at_rest and least.hasExpired():
            break
        QThread.msleep(5)
    for _ in range(_LAYOUT_PASSES):
        application.processEvents()


def _application() -> QApplication:
    QCoreApplication.setOrganizationName("evprof")
    QCoreApplication.setApplicationName("evprof")
    QGuiApplication.setDesktopFileName("evprof")
    existing = QApplication.instance()
    if isinstance(existing, QApplication):
        return existing
    qInstallMessageHandler(_log_of_qt)
    return QApplication([sys.argv[0] if sys.argv else "evprof"])


def _log_of_qt(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if "propagateSizeHints" in message:
        return  # the offscreen platform says so about every window
    level = {
        QtMsgType.QtDebugMsg: logging.DEBUG,
        QtMsgType.QtInfoMsg: logging.INFO,
        QtMsgType.QtWarningMsg: logging.WARNING,
    }.get(kind, logging.ERROR)
    logging.getLogger("qt").log(level, "%s", message)
