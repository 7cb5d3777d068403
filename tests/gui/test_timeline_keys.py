"""Keys of the timeline in the whole window: each acts wherever the focus is, and what was done lasts as it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, QSettings, Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QInputDialog, QLineEdit, QWidget

from evprof.session.facts import Mark, marks_of
from kept import Keep
from ui.state.run_controller import go_to
from ui.state.selection import RoundRef, SpanRef, TimeRange, TokenRef
from ui.style.theme import ThemeHolder
from ui.timeline.marks import MarkPanel
from ui.timeline.scene import GUTTER_PX
from ui.window.actions import ENTRIES, TIMELINE, ActionEntry
from ui.window.main_window import MainWindow
from whole_session import load_session

MS = 1_000_000


@pytest.fixture
def window(make_window: Callable[..., MainWindow], session_file: Path, tmp_path: Path) -> MainWindow:
    """A window that shows the speculative run of a saved session."""
    made = make_window(QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat))
    made.resize(1440, 900)
    made.session.read(session_file)
    made.selection.set_runs(3, 3)
    QApplication.processEvents()
    made.activateWindow()
    return made


def _press(widget: QWidget, keys: str) -> None:
    QTest.keySequence(widget, QKeySequence(keys))
    QApplication.processEvents()


def _point(window: MainWindow, x: float, y: float = 12.0) -> None:
    window.timeline.stack.point_at(QPointF(GUTTER_PX + x, y))


@pytest.mark.parametrize(
    "entry",
    [one for one in ENTRIES if one is not None and one.below == TIMELINE and one.keys],
    ids=lambda one: one.name,
)
def test_each_key_acts_from_the_run_list_too(window: MainWindow, entry: ActionEntry) -> None:
    """Qt's list would take letters for the beginning of a line's name."""
    name, keys = entry.name, entry.keys
    lines = window.runs.list
    lines.setFocus()
    QTest.mouseClick(lines.viewport(), Qt.MouseButton.LeftButton, pos=lines.visualRect(lines.currentIndex()).center())
    heard: list[str] = []
    window.actions_by_name[name].triggered.connect(lambda: heard.append(name))
    _press(lines, keys)
    assert heard == [name]


def test_letters_are_written_where_a_person_writes(window: MainWindow) -> None:
    field = window.toolbar.findChildren(QLineEdit)[0]
    field.setFocus()
    field.clear()
    QTest.keyClicks(field, "farm, mars.")
    assert field.text() == "farm, mars."
    assert not window.controller.marks.marks


def test_m_marks_the_middle_of_the_view_where_nothing_is_pointed_at(window: MainWindow) -> None:
    window.timeline.scene.pointer_px = None
    window.timeline.zooming.zoom_to(TimeRange(2 * MS, 6 * MS))
    _press(window, "M")
    (mark,) = window.controller.marks.marks
    assert (mark.run_id, mark.start_ns, mark.end_ns) == (3, 4 * MS, 4 * MS)
    _press(window, "M")
    assert window.controller.marks.marks == [mark]


def test_a_token_turns_into_the_range_of_its_step(window: MainWindow) -> None:
    tokens = window.controller.runs[3].tokens
    window.selection.select(TokenRef(3, tokens[4].position))
    marked = window.timeline.scene.marked_range
    assert marked is not None
    zero = window.controller.runs[3].info.start_ns or 0
    assert marked == (tokens[3].t_ns - zero, tokens[4].t_ns - zero)
    _press(window, "R")
    assert window.selection.chosen == marked


def test_steps_keep_to_the_kind_that_is_selected(window: MainWindow) -> None:
    window.selection.select(TokenRef(3, window.controller.runs[3].tokens[2].position))
    _press(window, ".")
    assert window.selection.token == TokenRef(3, window.controller.runs[3].tokens[3].position)
    window.selection.select(RoundRef(3, 1))
    _press(window, ",")
    assert window.selection.round == RoundRef(3, 0)
    part = next(span for span in window.controller.runs[3].spans.values() if not span.is_stage)
    window.selection.select(SpanRef(3, part.span_id))
    _press(window, ".")
    ref = window.selection.span
    assert not window.controller.runs[3].spans[ref.span_id].is_stage


def test_marks_are_kept_in_the_session_with_their_notes(window: MainWindow, session_file, monkeypatch) -> None:
    window.selection.select(TimeRange(2 * MS, 5 * MS))
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("slow here", True))
    _press(window, "Shift+M")
    window.selection.clear()
    _point(window, 40)
    _press(window, "M")
    marks = window.controller.marks.marks
    assert sorted(mark.note for mark in marks) == ["", "slow here"]
    window.session.close()
    assert marks_of(load_session(session_file).facts) == marks


def test_esc_takes_a_message_away_before_the_selection(window: MainWindow) -> None:
    window.selection.select(TimeRange(2 * MS, 5 * MS))
    window.messages.post("Something is to be read.")
    _press(window.runs.list, "Esc")
    assert window.messages.shown is None
    assert window.selection.chosen == TimeRange(2 * MS, 5 * MS)
    _press(window.runs.list, "Esc")
    assert window.selection.chosen is None


def test_figures_of_a_range_are_copied_as_the_panel_tells_them(window: MainWindow) -> None:
    stage = window.controller.runs[3].stage("decode", "target")
    decoding = window.timeline.scene.range_of(SpanRef(3, stage.span_id))
    window.selection.select(TimeRange(decoding.start_ns, decoding.start_ns + 4 * MS))
    _point(window, window.timeline.scene.scale.x(decoding.start_ns + 2 * MS))
    lines = window.timeline.offers.lines_of(None)
    assert lines[0][0] == "Selected range"
    assert ("length", "4.00 ms", "") in lines
    assert any(line[1:] == ("sum", "share") for line in lines)


def test_a_deleted_mark_comes_back(window: MainWindow) -> None:
    mark = Mark(3, 2 * MS, 2 * MS, "here")
    window.controller.marks.add(mark)
    assert window.timeline.scene.marks == [mark]
    window.controller.marks.delete(mark)
    assert window.timeline.scene.marks == []
    notice = window.messages.shown
    assert notice.action == "Undo"
    window.messages.act()
    assert window.controller.marks.marks == [mark]


def test_the_list_of_marks_leads_to_them_and_to_their_runs(window: MainWindow) -> None:
    window.controller.marks.add(Mark(2, MS, 3 * MS, "the other run"))
    _press(window, "Ctrl+M")
    panel = window.body.panel("marks")
    assert isinstance(panel, MarkPanel)
    assert [line.name for line in panel.list.lines] == ["the other run"]
    QTest.mouseClick(
        panel.list.viewport(),
        Qt.MouseButton.LeftButton,
        pos=panel.list.visualRect(panel.list.model().index(0, 0)).center(),
    )
    assert window.selection.runs == (1, 2)
    assert window.selection.time_range == (MS, 3 * MS)
    QTest.keyClick(panel.list, Qt.Key.Key_Delete)
    assert not panel.list.lines


def test_marks_of_a_deleted_run_go_and_come_with_it(window: MainWindow) -> None:
    """One of them led into the run on show."""
    marks = window.controller.marks
    marks.add(Mark(1, 2 * MS, 5 * MS))
    marks.add(Mark(3, 2 * MS, 5 * MS))
    window.body.toggle("marks")
    panel = window.body.panel("marks")
    assert isinstance(panel, MarkPanel)
    window.runs.remarks.delete([1])
    assert [line.key for line in panel.list.lines] == [marks.marks[1]]
    window.selection.clear()
    go_to(marks.marks[0], window.controller.runs, window.selection)
    assert window.selection.chosen is None
    window.runs.remarks.restore([1])
    assert [line.key for line in panel.list.lines] == marks.marks
    # The panel says so where all marks are gone.
    window.runs.remarks.delete([1, 3])
    assert not panel.empty.isHidden()


def test_collapsed_lanes_are_remembered(window: MainWindow, themes: ThemeHolder, tmp_path: Path, keep: Keep) -> None:
    window.timeline.stack.toggle_fold(window.timeline.rounds)
    again = keep(MainWindow(themes, QSettings(str(tmp_path / "settings.ini"), QSettings.Format.IniFormat)))
    assert [lane.key for lane in again.timeline.lanes if lane.is_folded] == ["rounds-1"]
