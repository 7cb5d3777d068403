"""Starts the window, or draws it once into a picture without a display."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import (
    QCoreApplication,
    QDeadlineTimer,
    QEvent,
    QMessageLogContext,
    QObject,
    QSettings,
    Qt,
    QThread,
    QTimer,
    QtMsgType,
    Signal,
    qInstallMessageHandler,
)
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.run.works.work_form import Works
from ui.settings.examiner import Examiner
from ui.state.run_controller import Host
from ui.style.icons import window_icon
from ui.style.theme import ThemeHolder, theme_named
from ui.window.main_window import MainWindow
from ui.window.picture_file import save_picture

logger = logging.getLogger(__name__)

DEMO_PATIENCE_MS = 1_500
"""How long the demo waits for the first pictures of its sample."""

Report = Callable[[BaseException, str], Path | None]
"""Writes a crash report about what was being done; returns where it is."""


def run_window(
    paths: Sequence[str],
    *,
    engine_argv: Sequence[str],
    theme: str | None = None,
    size: tuple[int, int] | None = None,
    examine_argv: Sequence[str] = (),
    demo: bool = False,
    report: Report | None = None,
    works: Works | None = None,
) -> int:
    """Shows the window until it is closed and returns the exit code.

    `engine_argv` starts an engine process; that happens after the first paint. `examine_argv` starts the program that
    looks at checkpoints (see `ui.settings.examiner`; empty: none does). `demo` runs the bundled demo at once.
    `theme` None is what was chosen last. `works` is the long work that can be started.
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
    if works is not None:
        window.long_work.offer(works)
    net = DefectNet(window, report)
    net.spread()

    def make_host(recording: RecordLog) -> Host:
        from evprof.run.processes.engine_host import EngineHost

        host = EngineHost(engine_argv, recording)
        host.start()
        return host

    def begin() -> None:
        window.start_engine(make_host)
        window.abandoned.look()
        window.open_paths(paths)
        if demo:
            _run_demo_soon(window)

    examiner = Examiner(examine_argv) if examine_argv else None
    window.toolbar.examiner = examiner
    window.painted.connect(begin)
    window.show()
    code = application.exec()
    if examiner is not None:
        examiner.close()
    net.fold()
    holder.detach()
    return code


def _run_demo_soon(window: MainWindow, deadline: QDeadlineTimer | None = None) -> None:
    """Runs the demo once the sample's pictures stand: the players rest while a run is measured."""
    deadline = deadline or QDeadlineTimer(DEMO_PATIENCE_MS)
    if window.is_at_rest or deadline.hasExpired():
        window.run_demo()
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
    picture = picture_of(window, scale)
    is_saved = save_picture(picture, out)
    window.close()
    window.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    holder.detach()
    if not is_saved:
        from evprof.core.errors import UserError

        raise UserError(f"The picture {out} cannot be written; check the folder and the free space.")


def settle(application: QApplication, window: MainWindow) -> None:
    """Lets layouts, pictures of frames and late timers come to rest, so that a picture shows everything."""
    deadline = QDeadlineTimer(3_000)
    window.controller.pull()
    while not deadline.hasExpired():
        application.processEvents()
        if window.is_at_rest and deadline.remainingTime() < 2_600:
            break
        QThread.msleep(5)
    application.processEvents()


def picture_of(window: MainWindow, scale: float) -> QImage:
    """The window as an image, `scale` pixels per logical px."""
    picture = QImage(window.size() * scale, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(scale)
    window.render(picture)
    return picture


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


class DefectNet(QObject):
    """Catches what nobody expected, on any thread: a report on disk, a line in the window, and the window goes on.

    Signals:
        caught(str): a sentence about a defect; emitted from any thread.
    """

    caught = Signal(str)

    def __init__(self, window: MainWindow, report: Report | None) -> None:
        super().__init__(window)
        self._report = report
        self.caught.connect(self._show, Qt.ConnectionType.QueuedConnection)
        self._window = window
        self._hooks = (sys.excepthook, threading.excepthook)

    def spread(self) -> None:
        """Begins to catch."""
        sys.excepthook = self._catch
        threading.excepthook = self._catch_of_thread

    def fold(self) -> None:
        """Stops catching."""
        sys.excepthook, threading.excepthook = self._hooks

    def _catch(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._hooks[0](kind, error, trace)
            return
        logger.error("unexpected", exc_info=(kind, error, trace))
        where = self._report(error, "the window") if self._report is not None else None
        details = f"the details are in {where}" if where else "the details are in the log"
        self.caught.emit(f"A defect of evprof: {type(error).__name__}: {error} ({details}). The window keeps running.")

    def _catch_of_thread(self, arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            self._catch(arguments.exc_type, arguments.exc_value, arguments.exc_traceback)

    def _show(self, sentence: str) -> None:
        self._window.messages.post(sentence)
