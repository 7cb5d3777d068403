"""Where two answers part: the panel beside the texts, and the marks in them and on the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import END, ORIGIN_TARGET, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, ImportedFacts, RunInfo
from evprof.core.sample import Sample
from evprof.metrics.comparison.answers import SAME
from evprof.view.columns import columns_of
from ui.columns import answer_comparison
from ui.columns.answer_comparison import PartingMarks
from ui.columns.answer_panel import AnswerPanel
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection, TokenRef
from ui.style.theme import ThemeHolder

MS = 1_000_000

A, B = 1, 2


def say(scripted_recording: RecordLog, run_id: int, pieces: list[str], step_ms: int, start: int = 0) -> None:
    """Tokens of a run, one every `step_ms` after its zero."""
    for place, piece in enumerate(pieces, start):
        t_ns = run_id * 1000 * MS + (place + 1) * step_ms * MS
        scripted_recording.append(TokenRecord(run_id, TARGET, place, place, ORIGIN_TARGET, -1, t_ns, piece))


@pytest.fixture
def scripted_recording() -> RecordLog:
    """Run 1 is over, run 2 goes on: both have said "The red car", run 1 "stops" after it."""
    made = RecordLog()
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", name="scene", reference="A red car.")
    for run_id in (A, B):
        info = RunInfo(run_id, run_id, 0, TARGET, "target", start_ns=run_id * 1000 * MS, sample=sample)
        made.post(RunStarted(run_id, info))
        made.append(SpanRecord(run_id, 0, -1, END, TARGET, "decode", info.start_ns or 0, run_id * 1000 * MS + 200 * MS))
    say(made, A, [" The", " red", " car", " stops", "."], 10)
    made.post(RunEnded(A, FINISHED))
    say(made, B, [" The", " red", " car", " dri"], 30)
    return made


@pytest.fixture
def panel(controller: RunController, selection: Selection, themes: ThemeHolder) -> Iterator[AnswerPanel]:
    made = AnswerPanel(controller, selection, themes)
    made.resize(700, 300)
    made.show()
    yield made
    made.close()
    made.deleteLater()


def test_it_says_who_was_earlier_and_where_they_part(panel: AnswerPanel, selection: Selection) -> None:
    selection.set_runs(A, B)
    assert panel.said.text() == "Both say the same 3 words so far."
    assert panel.keyword.text() == "First word of the expected answer: A “red” at 20.0 ms, B “red” at 60.0 ms."
    assert (
        panel.sheet.as_text() == "The red car\t30.0 ms\tA 60.0 ms earlier\t90.0 ms\tThe red car\nstops.\t50.0 ms\t\t\t"
    )


def test_answers_that_an_imported_file_does_not_tell_part_nowhere(
    application: QApplication, selection: Selection, themes: ThemeHolder
) -> None:
    scripted_recording = RecordLog()
    for run_id, text in ((A, None), (B, "The red car.")):
        imported = ImportedFacts("/data/rows.json", "per_sample_rows", run_id)
        info = RunInfo(run_id, run_id, 0, TARGET, "target", text=text, imported=imported)
        scripted_recording.post(RunStarted(run_id, info))
        scripted_recording.post(RunEnded(run_id, FINISHED, facts={"text": text}))
    controller = RunController(scripted_recording)
    controller.pull()
    panel = AnswerPanel(controller, selection, themes)
    panel.resize(700, 300)
    panel.show()
    selection.set_runs(A, B)
    assert panel.comparison.diff is None
    assert panel.said.text() == ""
    application.processEvents()
    assert panel.empty.words == ("No answers to compare", "The imported file does not hold the answer of A.")
    assert panel.empty.isVisible()
    assert panel.empty.y() < 20
    panel.close()
    panel.deleteLater()
    controller.close()


def test_it_follows_an_answer_that_goes_on(
    panel: AnswerPanel,
    selection: Selection,
    controller: RunController,
    scripted_recording: RecordLog,
    wait_until: Callable[..., Any],
) -> None:
    def is_said(second: str) -> bool:
        controller.pull()
        told = f"They part after 3 words: A goes on with “stops.” at 50.0 ms, B with “{second}” at 150 ms."
        return panel.said.text() == told

    selection.set_runs(A, B)
    say(scripted_recording, B, ["ves", " on"], 30, start=4)
    wait_until(lambda: is_said("drives"))
    scripted_recording.post(RunEnded(B, FINISHED))
    wait_until(lambda: is_said("drives on"))


def test_a_click_on_a_phrase_selects_its_first_token_in_the_run_of_that_side(
    panel: AnswerPanel, selection: Selection
) -> None:
    selection.set_runs(A, B)
    sheet = panel.sheet
    place = sheet.visualItemRect(sheet.item(0, 4)).center()
    QTest.mouseClick(sheet.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert selection.chosen == TokenRef(B, 0)
    QTest.keyClick(sheet, Qt.Key.Key_Down)
    assert selection.chosen == TokenRef(A, 3), "only A has text there"
    QTest.keyClick(sheet, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == sheet.as_text()


def test_both_texts_are_marked_where_they_part(
    controller: RunController, selection: Selection, themes: ThemeHolder, scripted_recording: RecordLog
) -> None:
    scripted_recording.post(RunEnded(B, FINISHED))
    controller.pull()
    pair = ModelPair(selection, themes)
    pair.show()
    marks = PartingMarks(controller, selection, pair, pair)
    selection.set_runs(A, B)
    pair.show_columns(*columns_of(controller.runs, (A, B)))
    QApplication.processEvents()
    assert marks.comparison.diff is not None
    for side, shown in enumerate((pair.left, pair.right)):
        words = [(span.kind, word.text) for span in marks.comparison.diff.spans for word in (span.a, span.b)[side]]
        flow = shown.text.flow
        assert flow is not None
        marked = "".join(flow.marks[index].text for index in shown.text.differing)
        assert marked.split() == [text for kind, text in words if kind != SAME]
    drawn = pair.left.text.grab().toImage()
    pair.text_look.deeds()["mark_differences"]()
    assert pair.left.text.differing == []
    assert pair.left.text.grab().toImage() != drawn
    pair.close()
    pair.deleteLater()
    pair.close_feeds()


def test_long_answers_are_compared_once_they_are_over(
    panel: AnswerPanel, controller: RunController, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_comparison, "MOST_LIVE", 0)
    selection.set_runs(A, B)
    assert panel.comparison.runs is not None
    assert panel.comparison.diff is None
    assert panel.empty.words[0] == "Not compared yet"
    controller.runs[B].info.status = FINISHED
    panel.comparison.look()
    assert panel.comparison.diff is not None
