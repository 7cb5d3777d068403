"""The message bar: the newest message is on display, earlier ones can be reached, and Undo stays."""

from __future__ import annotations

from PySide6.QtWidgets import QMenu

from evprof.core.protocols import RunStarted, RunWarned
from evprof.core.run_info import RunInfo
from evprof.core.sample import Sample
from ui.widgets.message_bar import INFO, UNDO
from ui.window.main_window import MainWindow


def sentence(window: MainWindow) -> str:
    return "" if window.messages.shown is None else window.messages.shown.sentence


def test_the_newest_message_comes_first_and_earlier_ones_are_a_click_away(window: MainWindow) -> None:
    bar = window.messages
    timeline = window.timeline.geometry()
    for name in ("wrong.npy", "empty.npy", "empty.mp4"):
        bar.post(f"{name}: cannot be read.")
    assert sentence(window) == "empty.mp4: cannot be read."
    assert bar._more.text() == "2 earlier"
    bar._more.click()
    (menu,) = bar.findChildren(QMenu)
    assert [action.text() for action in menu.actions()] == ["empty.npy: cannot be read.", "wrong.npy: cannot be read."]
    menu.actions()[1].trigger()
    menu.close()
    assert sentence(window) == "wrong.npy: cannot be read."
    bar.dismiss()
    bar.dismiss()
    assert sentence(window) == "empty.npy: cannot be read."
    assert window.timeline.geometry() == timeline


def test_undo_is_there_after_the_next_run_began(window: MainWindow) -> None:
    undone: list[bool] = []
    window.messages.post("Run 3 deleted.", INFO, UNDO, lambda: undone.append(True))
    window.session.recording.post(RunStarted(4, RunInfo(4, 1, 0, "target", "target", sample=Sample(prompt="?"))))
    window.session.recording.post(RunWarned(4, "The GPU is hot."))
    window.controller.pull()
    assert sentence(window) == "Run 4: The GPU is hot."
    window.actions_by_name["undo"].trigger()
    assert undone == [True]
    assert sentence(window) == "Run 4: The GPU is hot."
    window.messages.post("Run 3 deleted.", INFO, UNDO)
    assert not window.messages._reading.isActive()
