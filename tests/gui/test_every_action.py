"""Every action of the table, driven from the keyboard: by its own keys, or found and done in the palette.

What an action does has to be seen: other pixels, another window, a file dialog, a request, or a page that opens. Two
pictures taken before it must be equal, so that nothing else can be taken for its effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from PySide6.QtCore import QDeadlineTimer, Qt, QThread
from PySide6.QtGui import QDesktopServices, QImage, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QInputDialog, QMessageBox

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.view.alignment import LANDMARK, Landmark, RunAlignment
from ui.state.selection import SpanRef
from ui.style.theme import ThemeHolder
from ui.window.actions import ENTRIES, ActionEntry
from ui.window.main_window import MainWindow

ACTIONS = [entry for entry in ENTRIES if entry is not None]
REST_MS, LIMIT_MS = 120, 20_000
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


@dataclass
class Asked:
    """What left the window: dialogs, pages and requests. Also the host that never does anything."""

    of: list[str] = field(default_factory=list)
    is_busy: bool = False

    def submit(self, request: RunRequest) -> None:
        self.of.append(f"run {request.mode}")

    def stop(self) -> None:
        self.of.append("stop")

    def attach(self, recording: RecordLog) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Dialogs that would wait for a person are noted instead."""
    noted = Asked()

    def note(name: str, answer: object) -> Callable[..., object]:
        return lambda *_, **__: noted.of.append(name) or answer

    for name, answer in (
        ("getOpenFileName", ("", "")),
        ("getOpenFileNames", ([], "")),
        ("getSaveFileName", ("", "")),
        ("getExistingDirectory", ""),
    ):
        monkeypatch.setattr(QFileDialog, name, note(name, answer))
    for name in ("getText", "getItem"):
        monkeypatch.setattr(QInputDialog, name, note(name, ("", False)))
    monkeypatch.setattr(QInputDialog, "exec", note("text", QInputDialog.DialogCode.Rejected))
    for name in ("getDouble", "getInt"):
        monkeypatch.setattr(QInputDialog, name, note(name, (0, False)))
    monkeypatch.setattr(QMessageBox, "exec", note("question", QMessageBox.StandardButton.Cancel))
    monkeypatch.setattr(QDesktopServices, "openUrl", note("page", True))
    return noted


@pytest.fixture
def window(themes: ThemeHolder, application, session_file, asked: Asked, wait_until, *, keep) -> MainWindow:
    """A window in the midst of work: a session is open, a stage selected, the view zoomed in."""
    made = MainWindow(themes)
    made.resize(1280, 720)
    made.show()
    made.open_paths([str(session_file)], waits=True)
    made.start_engine(lambda _: asked)
    rest(application, made)
    made.following.show_run(3)
    run = made.controller.runs[3]
    stage = run.stage("decode", "target")
    made.selection.select(SpanRef(3, stage.span_id))
    made.timeline.zooming.focus_selection()
    made.activateWindow()
    wait_until(made.isActiveWindow)
    made.timeline.setFocus()
    rest(application, made)
    asked.of.clear()
    return keep(made)


def seen(application: QApplication, window: MainWindow, asked: Asked) -> tuple[Any, ...]:
    """What a person could tell apart: what is open, what it looks like, what was asked, and the clipboard."""
    rest(application, window)
    shown = [widget for widget in application.topLevelWidgets() if widget.isVisible()]
    looks = [(type(widget).__name__, widget.windowTitle(), _pixels(widget)) for widget in shown]
    return sorted(looks), list(asked.of), application.clipboard().text(), application.clipboard().image().size()


def seen_at_rest(application: QApplication, window: MainWindow, asked: Asked) -> tuple[Any, ...]:
    """The same, once it stays the same: on a busy machine timers of the window may fire late."""
    limit = QDeadlineTimer(LIMIT_MS)
    before, found = None, seen(application, window, asked)
    while before != found:
        assert not limit.hasExpired(), "the window changes by itself"
        before, found = found, seen(application, window, asked)
    return found


def rest(application: QApplication, window: MainWindow) -> None:
    """Until nothing is read any more and late timers have fired."""
    late = QDeadlineTimer(REST_MS)
    while not (late.hasExpired() and window.is_at_rest):
        application.processEvents()
        QThread.msleep(2)


def _pixels(widget: Any) -> str:
    # Of other formats some bytes say nothing and may be anything.
    picture = widget.grab().toImage().convertToFormat(QImage.Format.Format_ARGB32)
    return hashlib.sha256(picture.constBits()).hexdigest()


def busy(window: MainWindow, asked: Asked) -> None:
    """A run is going on."""
    asked.is_busy = True
    window.controller.pull()
    window.toolbar.set_busy(True)


def all_in_sight(window: MainWindow, _asked: Asked) -> None:
    """Nothing is zoomed in on."""
    window.timeline.zooming.fit()


def on_the_first_stage(window: MainWindow, _asked: Asked) -> None:
    """There are stages after the selected one."""
    window.selection.clear()
    window.timeline.choosing.step(+1)


def deleted(window: MainWindow, _asked: Asked) -> None:
    """A run was deleted."""
    window.actions_by_name["delete_run"].trigger()


def beside(window: MainWindow, _asked: Asked) -> None:
    """Two runs are shown, aligned where no other action aligns them."""
    window.selection.set_runs(1, 4)
    stage = window.controller.runs[4].stage("decode", "target")
    window.selection.select(SpanRef(4, stage.span_id))
    window.selection.set_alignment(RunAlignment(LANDMARK, Landmark("vision")))


PREPARE: dict[str, Callable[[MainWindow, Asked], None]] = {
    "stop": busy,
    "zoom_selection": all_in_sight,
    "next_span": on_the_first_stage,
    **dict.fromkeys(("undo", "restore_runs"), deleted),
    **dict.fromkeys(("align_start", "align_first_token", "align_span"), beside),
}
"""What has to be so before an action can do anything."""


def press(window: MainWindow, entry: ActionEntry) -> None:
    """An action's own keys; of one without any, its words in the palette."""
    if entry.keys:
        # QTest.keySequence aborts on keys such as "?".
        keys: Any = QKeySequence(entry.keys)
        QTest.keyClick(window, keys[0].key(), keys[0].keyboardModifiers())
        return
    QTest.keyClick(window, Qt.Key.Key_P, CONTROL | SHIFT)
    box = window.finding.box
    QTest.keyClicks(box.line, entry.text.rstrip("…"))
    assert box.titles[0] == entry.text
    QTest.keyClick(box.line, Qt.Key.Key_Return)


@pytest.mark.parametrize("entry", ACTIONS, ids=lambda entry: entry.name)
def test_the_keyboard_does_it(entry: ActionEntry, window: MainWindow, application: QApplication, asked: Asked) -> None:
    PREPARE.get(entry.name, lambda *_: None)(window, asked)
    before = seen_at_rest(application, window, asked)
    press(window, entry)
    after = seen(application, window, asked)
    assert after != before, f"nothing came of {entry.keys or entry.text}"


def test_no_two_actions_share_their_keys() -> None:
    keys = [QKeySequence(entry.keys).toString() for entry in ACTIONS if entry.keys]
    assert len(keys) == len(set(keys))
