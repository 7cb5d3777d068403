"""The comparison window: columns of several sessions, baseline, differences, notes, files."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.run_info import FAILED
from evprof.run.session_writer import SessionWriter
from kept import Keep
from ui.comparison.book import ColumnKey
from ui.comparison.sheet import FigureCell, delta_text
from ui.comparison.table import HEAD_PX
from ui.comparison.window import ComparisonDialog
from ui.style.theme import ThemeHolder
from ui.window.main_window import MainWindow

Wait = Callable[..., None]
AddRow = Callable[..., None]

SAMPLES = 5
FAST = {"load": 1.0, "preprocess": 2.0, "vision": 5.0, "prefill": 40.0, "decode": 60.0}
SLOW = {"load": 1.0, "preprocess": 2.0, "vision": 5.0, "prefill": 120.0, "decode": 45.0}


def _cell(recording: RecordLog, add_row: AddRow, name: str, stages: dict[str, float], **more: object) -> None:
    for place in range(SAMPLES):
        first = recording.message_count // 2 + 1
        longer = {stage: took * (1 + place / 100) for stage, took in stages.items()}
        add_row(recording, first, longer, cell=name, sample=f"scene {place}", tokens=3 + place, **more)


@pytest.fixture
def here(tmp_path: Path, add_row: AddRow) -> Path:
    """The window's session: two cells, one with a failed row and a warm-up."""
    recording = RecordLog()
    _cell(recording, add_row, "8 frames", FAST, settings={"frames": 8})
    _cell(recording, add_row, "16 frames", SLOW, settings={"frames": 16})
    add_row(recording, 11, {"load": 1.0}, cell="8 frames", sample="bad", status=FAILED, error="No memory.")
    add_row(recording, 12, FAST, cell="8 frames", sample="first", warmup=True)
    path = tmp_path / "here.evprof"
    SessionWriter(recording, path).close()
    return path


@pytest.fixture
def there(tmp_path: Path, add_row: AddRow) -> Path:
    """Another session: one cell that took the same time in one piece as the fast one's last two stages."""
    recording = RecordLog()
    _cell(recording, add_row, "old", {"vision": 5.0, "prefill+decode": 100.0})
    path = tmp_path / "there.evprof"
    SessionWriter(recording, path).close()
    return path


@pytest.fixture
def window(themes: ThemeHolder, here: Path, keep: Keep) -> MainWindow:
    """The window over that session, without an engine."""
    made = MainWindow(themes)
    made.session.read(here)
    return keep(made)


@pytest.fixture
def dialog(window: MainWindow, wait_until: Wait) -> ComparisonDialog:
    """The comparison window, opened as a person does."""
    window.actions_by_name["compare"].trigger()
    (made,) = window.findChildren(ComparisonDialog)
    made.resize(1280, 720)
    _settled(made, wait_until)
    return made


def _settled(dialog: ComparisonDialog, wait_until: Wait) -> None:
    wait_until(lambda: dialog.is_idle)
    QApplication.processEvents()
    QApplication.processEvents()


def _titles(dialog: ComparisonDialog) -> list[str]:
    return [head.title for head in dialog.table.sheet.heads]


def _row(dialog: ComparisonDialog, name: str) -> tuple[FigureCell, ...]:
    return next(row.cells for row in dialog.table.sheet.rows if row.name == name and row.cells)


def _add(dialog: ComparisonDialog, path: Path, wait_until: Wait) -> None:
    dialog.add_sessions([path])
    wait_until(lambda: str(path) in dialog.book.sessions)
    for place in dialog.book.sessions[str(path)].columns:
        if place not in dialog.book.chosen:
            dialog.toggle(place)
    _settled(dialog, wait_until)


def test_it_begins_with_the_cells_of_the_session(dialog: ComparisonDialog) -> None:
    assert sorted(_titles(dialog)) == ["16 frames · scripted-video-llava", "8 frames · scripted-video-llava"]
    heads = {head.title.split(" · ", 1)[0]: head for head in dialog.table.sheet.heads}
    assert heads["8 frames"].counts == "5 samples · 1 failed"
    assert [row.name for row in dialog.table.sheet.rows if row.is_setting] == ["frames"]


def test_it_compares_columns_of_two_sessions(dialog: ComparisonDialog, there: Path, wait_until: Wait) -> None:
    _add(dialog, there, wait_until)
    assert len(dialog.table.sheet.heads) == 3
    assert [head.session for head in dialog.table.sheet.heads][2] == "there.evprof"
    fast = next(i for i, title in enumerate(_titles(dialog)) if title.startswith("8 frames"))
    dialog.table.baseline_chosen.emit(fast)
    _settled(dialog, wait_until)
    piece = _row(dialog, "prefill + decode")
    assert piece[fast].value == "102.0"
    assert piece[2].change.startswith("±0 · 1.00×")
    assert piece[2].judgement == ""
    prefill = _row(dialog, "prefill")
    assert prefill[2].value == "–"


def test_a_click_on_a_head_makes_it_the_baseline(dialog: ComparisonDialog, wait_until: Wait) -> None:
    before = dialog.table.sheet.baseline
    other = 1 - before
    assert _row(dialog, "prefill")[before].change == ""
    heads = dialog.table.horizontalHeader()
    place = QPoint(heads.sectionViewportPosition(other) + heads.sectionSize(other) // 2, HEAD_PX // 2)
    QTest.mouseClick(heads.viewport(), Qt.MouseButton.LeftButton, pos=place)
    _settled(dialog, wait_until)
    assert dialog.table.sheet.baseline == other
    assert dialog.table.sheet.heads[other].is_baseline
    slow = next(i for i, title in enumerate(_titles(dialog)) if title.startswith("16"))
    cell = _row(dialog, "prefill")[1 - other]
    is_slower = 1 - other == slow
    assert cell.judgement == ("bad" if is_slower else "good")
    assert cell.change.split(" · ")[1].startswith("3.00×" if is_slower else "0.33×")


def test_keys_choose_the_baseline_and_remove(dialog: ComparisonDialog, wait_until: Wait) -> None:
    table = dialog.table
    first, _ = _titles(dialog)
    table.setFocus()
    table.setCurrentIndex(table.model().index(0, 1))
    QTest.keyClick(table, Qt.Key.Key_Return)
    _settled(dialog, wait_until)
    assert table.sheet.baseline == 1
    QTest.keyClick(table, Qt.Key.Key_Delete)
    _settled(dialog, wait_until)
    assert _titles(dialog) == [first]


def test_space_ticks_in_the_list_and_files_can_be_dropped(dialog: ComparisonDialog, there: Path, wait_until) -> None:
    shown = dialog.list
    shown.setFocus()
    shown.setCurrentIndex(shown.model().index(1, 0))
    assert len(dialog.book.chosen) == 2
    QTest.keyClick(shown, Qt.Key.Key_Space)
    assert len(dialog.book.chosen) == 1
    QTest.keyClick(shown, Qt.Key.Key_Space)
    assert len(dialog.book.chosen) == 2
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(there))])
    dialog.dropEvent(
        QDropEvent(
            QPointF(9, 9),
            Qt.DropAction.CopyAction,
            mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )
    wait_until(lambda: str(there) in dialog.book.sessions)
    assert [line.name for line in shown.lines if line.is_checked is None] == ["here.evprof", "there.evprof"]
    dialog.close_session(str(there))
    assert [line.name for line in shown.lines if line.is_checked is None] == ["here.evprof"]


def test_differences_only_hides_what_is_alike(dialog: ComparisonDialog, wait_until: Wait) -> None:
    assert _row(dialog, "vision")
    dialog.differences_only.setChecked(True)
    _settled(dialog, wait_until)
    names = [row.name for row in dialog.table.sheet.rows]
    assert "prefill" in names
    assert "vision" not in names
    assert dialog.table.sheet.hidden > 0
    assert dialog.signs.text().startswith("Hidden, without a difference: ")


def test_colour_never_stands_alone(dialog: ComparisonDialog) -> None:
    """A cell with a colour has a sign, and a cell without a judgement has neither."""
    model, sheet = dialog.table.model(), dialog.table.sheet
    other = 1 - sheet.baseline
    judged = set()
    for place, row in enumerate(sheet.rows):
        if not row.cells:
            continue
        index = model.index(place, other)
        color, judgement = model.data(index, Qt.ItemDataRole.ForegroundRole), row.cells[other].judgement
        assert (color is not None) == bool(judgement)
        assert ("▲" in model.data(index), "▼" in model.data(index)) == (judgement == "good", judgement == "bad")
        judged.add(judgement)
    assert {"good", "bad"} <= judged


def test_failures_and_warm_ups_are_told(dialog: ComparisonDialog) -> None:
    told = dialog.notes.text()
    assert "1 of 8 frames" in told
    assert "1 warm-up, cold or profiled run is left out" in told


def test_it_writes_csv_and_json(dialog: ComparisonDialog, tmp_path: Path, wait_until: Wait) -> None:
    for name in ("table.csv", "table.json"):
        path = tmp_path / name
        dialog.write(path)
        wait_until(path.exists)
    with (tmp_path / "table.csv").open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    assert {line["name"] for line in lines} >= {"prefill_ms", "total_ms"}
    document = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert len(document["columns"]) == 2


def test_what_is_no_session_is_told(dialog: ComparisonDialog, tmp_path: Path, wait_until: Wait) -> None:
    path = tmp_path / "no.evprof"
    path.write_text("not a session", encoding="utf-8")
    dialog.add_sessions([path])
    wait_until(lambda: dialog.messages.shown is not None)
    assert "no.evprof" in dialog.messages.shown.sentence
    assert len(dialog.table.sheet.heads) == 2


def test_another_session_in_the_window_starts_over(
    window: MainWindow, dialog: ComparisonDialog, there: Path, wait_until: Wait
) -> None:
    window.session.read(there)
    wait_until(lambda: [place.mode for place in dialog.book.chosen] == ["target"])
    _settled(dialog, wait_until)
    assert _titles(dialog) == ["old · scripted-video-llava"]
    assert dialog.book.chosen == [ColumnKey("", 1, "target", "target")]


@pytest.mark.parametrize(
    ("delta", "unit", "text"),
    [
        (412.25, "ms", "+412.2"),
        (-0.004, "ms", "±0"),
        (-1.5, "tokens", "−1.5"),
        (0.125, "", "+12.5 points"),
        (0.0, "ms", "±0"),
    ],
)
def test_differences_have_a_sign(delta: float, unit: str, text: str) -> None:
    assert delta_text(delta, unit) == text


def test_what_is_written_is_told_although_the_window_was_closed_meanwhile(
    dialog: ComparisonDialog, window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *failure: failures.append(failure[1]))
    dialog.write(tmp_path / "comparison.json")
    dialog.close()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    window.session.wait()
    QApplication.processEvents()
    assert not failures
    assert "comparison.json" in window.messages.shown.sentence
