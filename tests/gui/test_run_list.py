"""The list of runs: which of them the columns show, what a person says of them, how repeats and baselines are told."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QInputDialog

from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_log import RunBook
from evprof.core.vocabulary.settings import with_value
from evprof.metrics.comparison.differences import difference_of
from evprof.metrics.document import run_document
from evprof.metrics.speculation.payoff import payoff_of
from evprof.run.requests import demo_requests
from evprof.run.session_writer import SessionWriter
from evprof.view.columns import columns_of
from scripted_engine import ScriptedEngine
from ui.clinic.window import ClinicDialog
from ui.comparison.book import OpenSession
from ui.comparison.sheet import sheet
from ui.runs import run_remarks
from ui.runs.run_entries import REPEATS
from ui.runs.run_list import RunList
from ui.state.cells import configuration_of
from ui.widgets.line_list import LINE, ListLine
from ui.window.main_window import MainWindow
from whole_session import load_session

PAIRS, DRAFTED, PLAIN = (REPEATS, "1"), (REPEATS, "2"), (REPEATS, "3")
"""The lines of `repeated`: a warm-up and three repeats side by side (runs 1 to 8), speculative (9 to 11), plain (12 to
14), then one speculative run with another γ (15)."""


def _repeated() -> RecordLog:
    recording, run_id = RecordLog(), 1
    engine = ScriptedEngine(speed=2000.0, is_warm=True)
    asked = demo_requests()[0]
    for group, (mode, repeat, warmup, gamma) in enumerate(
        (("side-by-side", 3, 1, 5), ("speculative", 3, 0, 5), ("target", 3, 0, 5), ("speculative", 1, 0, 3)), start=1
    ):
        settings = with_value(asked.settings, "gamma", gamma)
        request = replace(asked, mode=mode, repeat=repeat, warmup=warmup, settings=settings)
        engine.run(replace(request, first_run_id=run_id, group_id=group), recording, threading.Event())
        run_id += (repeat + warmup) * (2 if mode == "side-by-side" else 1)
    return recording


@pytest.fixture(scope="module")
def repeated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("repeated") / "repeated.evprof"
    SessionWriter(_repeated(), path).close()
    return path


@pytest.fixture
def path(repeated_file: Path, tmp_path: Path) -> Path:
    """A session of its own for every test."""
    copy = tmp_path / "s.evprof"
    copy.write_bytes(repeated_file.read_bytes())
    return copy


@pytest.fixture
def window(make_window: Callable[..., MainWindow], path: Path, application: QApplication) -> MainWindow:
    """A window that has opened the session."""
    made = make_window()
    made.resize(1440, 900)
    made.session.read(path)
    application.processEvents()
    return made


def _point(runs: RunList, key: object) -> QPoint:
    row = [line.key for line in runs.list.lines].index(key)
    return runs.list.visualRect(runs.list.model().index(row, 0)).topLeft() + QPoint(60, LINE // 2)


def _click(runs: RunList, key: object, modifier: Any = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.mouseClick(runs.list.viewport(), Qt.MouseButton.LeftButton, modifier, _point(runs, key))


def _line(runs: RunList, key: object) -> ListLine:
    runs.refresh()
    return next(line for line in runs.list.lines if line.key == key)


def _open(runs: RunList, *keys: tuple[str, str]) -> None:
    for key in keys:
        runs._fold(key, True)


def _saved(path: Path) -> RunBook:
    book = RunBook(load_session(path).recording)
    book.update()
    return book


# Choosing A and B.


def test_any_two_runs_stand_side_by_side_by_their_menu(window: MainWindow) -> None:
    runs = window.runs
    _open(runs, PAIRS, PLAIN)
    _click(runs, (12,))
    for key, name in (((3, 4), "Show as A"), ((12,), "Show as B")):
        menu = runs.menu_of(key)
        next(action for action in menu.actions() if action.text() == name).trigger()
        menu.deleteLater()
    assert window.selection.runs == (4, 12)
    assert {line.key: line.column for line in runs.list.lines if line.column} == {(3, 4): "A", (12,): "B"}


def test_ctrl_and_a_click_shows_a_run_beside_the_one_before(window: MainWindow) -> None:
    runs = window.runs
    _open(runs, PAIRS, DRAFTED)
    _click(runs, (10,))
    assert window.selection.runs == (10, 10)
    _click(runs, (5, 6), Qt.KeyboardModifier.ControlModifier)
    assert window.selection.runs == (10, 6)
    _click(runs, (5, 6))
    assert window.selection.runs == (5, 6)


# Repeats.


def test_repeats_are_one_line_with_their_interval_and_badges(window: MainWindow) -> None:
    runs = window.runs
    keys = [line.key for line in runs.list.lines]
    assert keys == [(15,), PLAIN, DRAFTED, PAIRS]
    pairs, drafted, plain = (_line(runs, key) for key in (PAIRS, DRAFTED, PLAIN))
    assert (pairs.name, pairs.second, pairs.badges) == ("1–8 · Side by side", "×3 · bus-approaching", ())
    assert plain.figure_below.endswith("ms")
    assert pairs.figure_below.count(" / ") == 1, "a time for each model, and no sum"
    payoff = payoff_of(window.controller.runs[9], window.controller.runs.values())
    assert payoff.whole.interval is None
    assert drafted.figure == "?"
    assert drafted.role == ("" if not payoff.is_clear else "good" if payoff.is_faster else "bad")
    assert drafted.chip == "vs 6 runs ▾"
    _open(runs, PAIRS)
    inner = [line for line in runs.list.lines if line.is_inner]
    assert [line.key for line in inner] == [(1, 2), (3, 4), (5, 6), (7, 8)]
    assert [line.name.split(" · ")[1] for line in inner] == ["warm-up", "repeat 1", "repeat 2", "repeat 3"]


def test_one_of_three_repeats_says_what_the_compare_window_says(window: MainWindow) -> None:
    """The panel judged a single run where the window next to it knew three, and coloured what it could not know."""
    _open(window.runs, PAIRS)
    _click(window.runs, (5, 6))
    runs = window.controller.runs
    columns = columns_of(runs, (5, 6))
    listed = [found for column in columns if (found := configuration_of(runs, column)) is not None]
    assert [[run.run_id for run in column.runs] for column in listed] == [[3, 5, 7], [4, 6, 8]]
    told = sheet(listed, 0, window.comparison.basis.key, {"": OpenSession("", "open", list(runs.values()))})
    compared = {row.name: row.cells for row in told.rows if row.cells and not row.is_setting}
    shown = {row.name: row for row in window.comparison.table.rows}
    assert {"vision", "prefill", "decode", "total"} <= shown.keys() & compared.keys()
    for name in shown.keys() & compared.keys():
        one, two = compared[name]
        assert shown[name].cells[:2] == (one.value, two.value), name
        if two.change:
            assert shown[name].cells[2] in two.change, name
            assert shown[name].roles[2] == (two.judgement or "dim"), name
    assert window.comparison.means.text() == "Means: A over runs 3, 5, 7, B over runs 4, 6, 8."
    # The sentence above the answers is of the same runs, and goes with them.
    assert window.pair.why.text() == difference_of(listed[0], listed[1]).why()
    window.selection.set_runs(5, None)
    assert window.pair.why.isHidden()


# What a person says of runs.


def test_a_name_and_a_note_stand_in_the_list_and_in_the_file(
    window: MainWindow, path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    runs = window.runs
    _click(runs, (15,))
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: (" night \n drive ", True))
    monkeypatch.setattr(run_remarks, "ask_long_text", lambda *_: "γ = 3\nafter the update")
    window.actions_by_name["rename_run"].trigger()
    window.actions_by_name["note_run"].trigger()
    line = _line(runs, (15,))
    assert (line.name, line.second.split(" · ")[1]) == ("15 · night drive", "γ = 3")
    assert "after the update" in line.tip
    wait_until(lambda: "γ = 3\nafter the update" in [section.note for section in window.inspector.sections])
    assert window.inspector.sections[0].head == "Run 15 · night drive"
    assert window.session.on_disk() == path
    info = _saved(path).runs[15].info
    assert (info.name, info.note) == ("night drive", "γ = 3\nafter the update")


def test_deleting_is_undone_at_once_or_later(window: MainWindow, path: Path) -> None:
    runs = window.runs
    _click(runs, PLAIN)
    shown = window.selection.runs
    runs.list.setFocus()
    QTest.keyClick(runs.list, Qt.Key.Key_Delete)
    assert PLAIN not in [line.key for line in runs.list.lines]
    assert window.selection.runs == (None, None)
    assert window.controller.next_run_id == 16
    notice = window.messages.shown
    assert notice.sentence == "Runs 12, 13, 14 deleted."
    window.session.on_disk()
    assert set(_saved(path).runs) == set(range(1, 12)) | {15}
    window.messages.act()
    assert window.selection.runs == shown
    assert _line(runs, PLAIN).second == "×3 · bus-approaching"
    runs.remarks.delete((15,))
    menu = runs.menu_of(None)
    next(action for action in menu.actions() if action.text() == "Bring deleted runs back (1)").trigger()
    menu.deleteLater()
    window.session.on_disk()
    assert set(_saved(path).runs) == set(range(1, 16))


def test_the_list_is_filtered_by_every_word(window: MainWindow) -> None:
    runs = window.runs
    runs.remarks.write((15,), "name", "night drive")
    for words, wanted in (
        ("NIGHT", [(15,)]),
        ("warm-up side", [PAIRS]),
        ("speculative", [(15,), DRAFTED]),
        ("speculative night side", []),
        ("", [(15,), PLAIN, DRAFTED, PAIRS]),
    ):
        runs.filter.setText(words)
        assert [line.key for line in runs.list.lines] == wanted, words
    runs.filter.setText("warm-up")
    _open(runs, PAIRS)
    assert [line.key for line in runs.list.lines] == [PAIRS, (1, 2)]


def test_nobody_can_write_markup_or_hide_letters_in_a_name(window: MainWindow) -> None:
    window.runs.remarks.write((15,), "name", "<img src='/dev/zero'>\u202e" + "x" * 100_000)
    _click(window.runs, (15,))
    window.runs.grab()
    window.runs.menu_of((15,)).deleteLater()
    assert _line(window.runs, (15,)).name.startswith("15 · <img")


# Baselines.


def test_a_chosen_baseline_is_told_everywhere_and_remembered(window: MainWindow, path: Path) -> None:
    runs = window.controller.runs
    _click(window.runs, DRAFTED)
    assert window.speculation.against.text() == "runs 9, 10, 11 vs 6 runs ▾"
    menu = window.runs._baseline_menu(runs[9])
    lines = {action.text().split(" · ")[0]: action for action in menu.actions() if action.isCheckable()}
    assert {name for name, action in lines.items() if action.isChecked()} == {f"run {n}" for n in (4, 6, 8, 12, 13, 14)}
    for number in (4, 6, 8):
        lines[f"run {number}"].trigger()
    menu.deleteLater()
    assert window.speculation.against.text() == "runs 9, 10, 11 vs runs 12, 13, 14 ▾"
    assert _line(window.runs, DRAFTED).chip == "vs 3 runs ▾"
    assert "Weighed against runs 12, 13, 14." in _line(window.runs, DRAFTED).tip
    assert "runs 12, 13, 14" in window.speculation.why.text
    window.session.on_disk()
    saved = _saved(path).runs
    found = payoff_of(saved[9], saved.values())
    assert found.baseline.run_ids == (12, 13, 14)
    assert run_document(saved[10], list(saved.values()))["baseline"] == {"run_ids": [12, 13, 14]}
    window.dialogs.show_clinic()
    clinic = window.findChild(ClinicDialog)
    assert clinic.against.text() == "vs runs 12, 13, 14 ▾"
    clinic.close()
    window.runs.remarks.weigh_against([runs[number] for number in (9, 10, 11)], ())
    assert window.speculation.against.text() == "runs 9, 10, 11 vs 6 runs ▾"


def test_the_sentence_that_lacks_runs_has_a_button_for_them(window: MainWindow, monkeypatch) -> None:
    asked: list[RunRequest] = []
    monkeypatch.setattr(window.controller, "submit", lambda *requests: asked.extend(requests))
    window.runs.remarks.delete((4, 6, 8, 12, 13, 14))
    _click(window.runs, DRAFTED)
    assert window.speculation.verdict.text.startswith("No run of the target alone")
    assert window.speculation.turns.text() == "Measure with target alone, 5 turns"
    window.speculation.turns.click()
    shown, before = window.selection.runs, window.controller.runs[9].info
    assert Counter((request.mode, request.repeat) for request in asked) == {
        (mode, repeat): count for mode in ("target", before.mode) for repeat, count in ((0, 1), (1, 5))
    }
    engine = ScriptedEngine(speed=2000.0, is_warm=True)
    for request in asked:
        request.validate()
        assert (request.sample, request.settings) == (before.sample, before.settings)
        assert request.target.name == before.models["target"].name
        # Its runs are there to be held against what is shown, so they do not take its place.
        controller = window.controller
        numbered = replace(request, first_run_id=controller.next_run_id, group_id=8 + request.group_id)
        engine.run(numbered, controller.recording, threading.Event())
        controller.pull()
    assert window.selection.runs == shown
