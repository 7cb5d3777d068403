"""Drives a real window with the X server's own mouse and keyboard: `python mouse_driver.py SESSION FOLDER`.

Nothing is called that a person could not reach: xdotool moves the pointer, presses buttons and types; this program only
looks where things are and waits. What it saw is printed as lines of `name: fact`; the first step that fails ends it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import QDeadlineTimer, QObject, QPoint, QPointF, QTimer
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMenu, QWidget

from evprof.core.run_info import FINISHED
from ui.window import app
from ui.window.main_window import MainWindow, MakeHost

PATIENCE_MS = 120_000
TICK_MS = 40

Condition = Callable[[], object]
Steps = Iterator[Condition]


def xdotool(*words: str | int) -> None:
    subprocess.run(["xdotool", *map(str, words)], check=True, timeout=20)


def click_at(place: QPoint, *, button: int = 1, key: str = "") -> None:
    """Moves the pointer to a place on the screen and clicks, with a key held where one is named."""
    xdotool("mousemove", "--sync", place.x(), place.y())
    if key:
        xdotool("keydown", key)
    xdotool("click", button)
    if key:
        xdotool("keyup", key)


def click(widget: QWidget, at: QPointF | QPoint | None = None, *, button: int = 1, key: str = "") -> None:
    place = widget.rect().center() if at is None else at.toPoint() if isinstance(at, QPointF) else at
    click_at(widget.mapToGlobal(place), button=button, key=key)


def drag(widget: QWidget, start: QPoint, end: QPoint) -> None:
    """Presses at one place of a widget and lets go at another, with a stop on the way as hands make it."""
    first, last = widget.mapToGlobal(start), widget.mapToGlobal(end)
    xdotool("mousemove", "--sync", first.x(), first.y())
    xdotool("mousedown", 1)
    for share in (0.3, 0.7, 1.0):
        place = first + (last - first) * share
        xdotool("mousemove", "--sync", place.x(), place.y())
    xdotool("mouseup", 1)


def menu_shown() -> QMenu | None:
    """The menu that is open, the innermost where one lies in another."""
    shown = [widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QMenu) and widget.isVisible()]
    return shown[-1] if shown else None


def choose(menu: QMenu | None, text: str) -> None:
    assert menu is not None
    action = next(action for action in menu.actions() if action.text().startswith(text))
    click(menu, menu.actionGeometry(action).center())


def file_dialog() -> QFileDialog | None:
    found = [widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QFileDialog)]
    return next((dialog for dialog in found if dialog.isVisible()), None)


def type_path(path: Path) -> None:
    dialog = file_dialog()
    assert dialog is not None
    # Without a window manager nobody gives the keyboard to a new window.
    xdotool("windowfocus", "--sync", int(dialog.winId()))
    xdotool("key", "ctrl+a")
    xdotool("type", "--delay", 4, str(path))
    xdotool("key", "Return")


class Driver(QObject):
    """Plays the steps: after each it waits until its condition holds."""

    def __init__(self, steps: Steps, window: MainWindow) -> None:
        super().__init__(window)
        self.failure = ""
        self._steps = steps
        self._condition: Condition = lambda: True
        self._patience = QDeadlineTimer(PATIENCE_MS)
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._go_on)
        self._timer.start()

    def _go_on(self) -> None:
        if not self._condition():
            if self._patience.hasExpired():
                self._end(f"nothing came of {self._where()}")
            return
        self._timer.stop()
        try:
            self._condition = next(self._steps)
        except StopIteration:
            self._end("")
        except Exception as error:
            self._end(f"{self._where()}: {error!r}")
            raise
        else:
            self._patience = QDeadlineTimer(PATIENCE_MS)
            self._timer.start()

    def _where(self) -> str:
        frame = getattr(self._steps, "gi_frame", None)
        return f"line {frame.f_lineno}" if frame is not None else "the last step"

    def _end(self, failure: str) -> None:
        self._timer.stop()
        self.failure = failure
        window = self.parent()
        assert isinstance(window, MainWindow)
        window.close()


def tell(name: str, fact: object) -> None:
    print(f"{name}: {fact}", flush=True)


def steps(window: MainWindow, session: Path, folder: Path) -> Steps:
    """Open, select, mark and note, choose A and B, run, stop, run again, export."""
    controller, selection = window.controller, window.selection
    yield lambda: controller.has_host and window.is_at_rest

    click(window.menu_button)
    yield menu_shown
    choose(menu_shown(), "Open session")
    yield file_dialog
    type_path(session)
    yield lambda: controller.runs and window.is_at_rest and selection.runs != (None, None)
    tell("opened", len(controller.runs))

    yield from look_and_note(window)
    yield from compare(window)
    yield from run_and_export(window, folder)


def look_and_note(window: MainWindow) -> Steps:
    controller, selection, timeline = window.controller, window.selection, window.timeline
    lane = next(lane for lane in timeline.lanes if lane.isVisible() and lane.names()[1].endswith("target"))
    track = next(track for _, track in timeline.scene.shown if track.role == "target")
    stage = track.run.stage("prefill", "target")
    assert stage is not None
    assert stage.end_ns is not None
    middle = (stage.start_ns + stage.end_ns) // 2 - track.zero_ns
    place = QPoint(lane.width() - int(lane.canvas_width) + int(timeline.scene.scale.x(middle)), 18)
    click(lane, place)
    yield lambda: selection.span is not None
    tell("selected", track.run.spans[selection.span.span_id].name if selection.span else None)

    click(lane, place, button=3)
    yield menu_shown
    choose(menu_shown(), "Mark here")
    xdotool("windowfocus", "--sync", int(window.winId()))
    yield lambda: controller.marks.marks and window.isActiveWindow()
    xdotool("key", "shift+m")
    yield lambda: isinstance(QApplication.focusWidget(), QLineEdit)
    xdotool("type", "--delay", 4, "slow here")
    xdotool("key", "Return")
    yield lambda: any(mark.note for mark in controller.marks.marks)
    tell("noted", [mark.note for mark in controller.marks.marks if mark.note])


def compare(window: MainWindow) -> Steps:
    runs, selection = window.runs.list, window.selection
    row = next(row for row, line in enumerate(runs.lines) if line.name.startswith("4 "))
    start, left = (
        runs.visualRect(runs.model().index(row, 0)).center(),
        QPoint(window.pair.width() // 4, window.pair.height() // 2),
    )
    drag(runs.viewport(), start, runs.viewport().mapFromGlobal(window.pair.mapToGlobal(left)))
    yield lambda: selection.runs[0] == 4
    tell("compared", selection.runs)


def run_and_export(window: MainWindow, folder: Path) -> Steps:
    controller = window.controller
    click(window.toolbar.run_button)
    yield lambda: controller.is_busy
    click(window.toolbar.stop_button)
    yield lambda: not controller.is_busy
    tell("stopped", sorted({run.info.status for run in controller.runs.values()}))

    known = set(controller.runs)
    click(window.toolbar.run_button)
    yield lambda: controller.is_busy
    yield lambda: not controller.is_busy
    new = [run for run_id, run in controller.runs.items() if run_id not in known and not run.info.warmup]
    assert all(run.info.status == FINISHED and run.tokens for run in new)
    tell("ran", [run.info.role for run in new])

    click(window.toolbar.export)
    yield menu_shown
    choose(menu_shown(), "JSON document")
    yield file_dialog
    type_path(folder / "exported.json")
    yield (folder / "exported.json").exists
    tell("exported", (folder / "exported.json").name)


def main(session: Path, folder: Path) -> int:
    """Opens the window as `evprof gui` does and plays the steps in it."""
    drivers: list[Driver] = []

    class Watched(MainWindow):
        def start_engine(self, make_host: MakeHost) -> None:
            super().start_engine(make_host)
            drivers.append(Driver(steps(self, session, folder), self))

    vars(app)["MainWindow"] = Watched
    engine = [sys.executable, "-m", "evprof", "_engine"]
    app.run_window([], engine_argv=engine, theme="dark", size=(1280, 800))
    (driver,) = drivers
    if driver.failure:
        print(driver.failure, file=sys.stderr)
    return bool(driver.failure)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
