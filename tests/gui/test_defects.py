"""A defect of evprof: a report without anything of the samples, a dialog, and a window that goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QWidget

from evprof.cli.terminal.crash import write_report
from evprof.core.errors import UserError
from evprof.core.files.user_folders import log_folder
from kept import Keep
from ui.defects.defect_net import CrashDialog, DefectNet, FaultFile, crashed_windows
from ui.state.run_controller import RunController

pytestmark = pytest.mark.logs_warnings

Wait = Callable[..., Any]


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_STATE_HOME", "LOCALAPPDATA", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


@pytest.fixture
def window(keep: Keep) -> QWidget:
    return keep(QWidget())


@pytest.fixture(autouse=True)
def net(window: QWidget, controller: RunController) -> Iterator[DefectNet]:
    """Spread over the window."""
    made = DefectNet(window, write_report, controller)
    made.spread()
    yield made
    made.fold()


def _dialogs(window: QWidget) -> list[CrashDialog]:
    return [dialog for dialog in window.findChildren(CrashDialog) if dialog.isVisible()]


def _raise() -> None:
    raise RuntimeError("a slot went wrong")


def _hit(defect: Callable[[], None]) -> None:
    """As Qt's loop does it with a slot that raises."""
    try:
        defect()
    except Exception as error:  # noqa: BLE001 - it is to be told, whatever it is
        sys.excepthook(type(error), error, error.__traceback__)


def test_what_a_person_can_put_right_is_a_sentence_and_no_defect(
    window: QWidget, net: DefectNet, logs: Path, application: QApplication
) -> None:
    told: list[str] = []
    net.refused.connect(told.append)

    def refuse() -> None:
        raise UserError("scene.evprof cannot be read any more; put it back.")

    _hit(refuse)
    application.processEvents()
    assert told == ["scene.evprof cannot be read any more; put it back."]
    assert not _dialogs(window)
    assert not [path for path in logs.rglob("*") if path.is_file()]


def test_a_defect_in_a_slot_is_reported_and_the_window_goes_on(
    window: QWidget, controller: RunController, wait_until: Wait
) -> None:
    answer = "".join(token.piece for token in controller.runs[1].tokens[:6])
    assert answer
    _hit(_raise)
    (dialog,) = wait_until(lambda: _dialogs(window))
    report = dialog.report
    text = report.read_text(encoding="utf-8")
    for part in ("evprof ", "Python ", "Qt ", "a slot went wrong", "in _raise", "last intervals", "decode"):
        assert part in text
    for private in ("What is in the scene?", "/gone/scene", answer):
        assert private not in text
    assert "in _raise" in dialog.detailedText()
    dialog.go_on_button.click()
    wait_until(lambda: not _dialogs(window))
    done: list[bool] = []
    QTimer.singleShot(0, lambda: done.append(True))
    wait_until(lambda: done)


def test_the_same_defect_again_and_again_is_told_once(window: QWidget, wait_until: Wait) -> None:
    for _ in range(50):
        _hit(_raise)
    wait_until(lambda: _dialogs(window))
    QApplication.processEvents()
    assert len(_dialogs(window)) == 1
    assert len(list(log_folder().glob("crash-*.txt"))) == 1


def test_a_window_that_crashed_hard_is_told_at_the_next_start(logs: Path) -> None:
    dies = (
        "import faulthandler; from ui.defects.defect_net import FaultFile; FaultFile().open(); faulthandler._sigabrt()"
    )
    found = subprocess.run([sys.executable, "-c", dies], check=False, capture_output=True)
    assert found.returncode != 0
    (report,) = crashed_windows()
    text = report.read_text(encoding="utf-8")
    assert "Fatal Python error" in text
    assert "evprof " in text
    assert crashed_windows() == [], "it is told once"


def test_a_window_that_was_closed_or_killed_leaves_nothing(logs: Path) -> None:
    file = FaultFile()
    file.open()
    assert crashed_windows() == [], "it is still there"
    file.close()
    assert not list(log_folder().iterdir())
    killed = "import os; from ui.defects.defect_net import FaultFile; FaultFile().open(); os._exit(1)"
    subprocess.run([sys.executable, "-c", killed], check=False)
    assert len(list(log_folder().iterdir())) == 1
    assert crashed_windows() == []
    assert not list(log_folder().iterdir())
    assert os.getpid() > 0
