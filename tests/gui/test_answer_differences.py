"""Marks in both texts where two answers differ."""

from __future__ import annotations

import pytest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import END, ORIGIN_TARGET, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import FINISHED, ImportedFacts, RunInfo
from evprof.core.sample import Sample
from evprof.view.columns import columns_of
from ui.columns import answer_comparison
from ui.columns.answer_comparison import AnswerComparison
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection

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


def _marked(pair: ModelPair) -> list[str]:
    texts = []
    for column in (pair.left, pair.right):
        flow = column.text.flow
        assert flow is not None
        texts.append("".join(flow.marks[index].text for index in column.text.differing).strip())
    return texts


def test_both_texts_are_marked_while_they_grow(
    pair: ModelPair, controller: RunController, selection: Selection, scripted_recording: RecordLog
) -> None:
    comparison = AnswerComparison(controller, selection, pair, pair)
    selection.set_runs(A, B)
    pair.show_columns(*columns_of(controller.runs, (A, B)))
    assert _marked(pair) == ["", ""]
    say(scripted_recording, B, ["ves", " on"], 30, start=4)
    controller.pull()
    pair.refresh()
    assert _marked(pair) == ["stops.", "drives on"]
    selection.set_runs(A, A)
    assert comparison.diff is None
    assert pair.left.text.differing == []


def test_answers_that_an_imported_file_does_not_hold_have_no_marks(pair: ModelPair, selection: Selection) -> None:
    recording = RecordLog()
    for run_id, text in ((A, None), (B, "The red car.")):
        imported = ImportedFacts("/data/rows.json", "per_sample_rows", run_id)
        recording.post(RunStarted(run_id, RunInfo(run_id, run_id, 0, TARGET, "target", text=text, imported=imported)))
        recording.post(RunEnded(run_id, FINISHED, facts={"text": text}))
    controller = RunController(recording)
    controller.pull()
    comparison = AnswerComparison(controller, selection, pair, pair)
    selection.set_runs(A, B)
    assert comparison.diff is None
    controller.close()


def test_long_answers_are_compared_once_they_are_over(
    pair: ModelPair, controller: RunController, selection: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_comparison, "MOST_LIVE", 0)
    comparison = AnswerComparison(controller, selection, pair, pair)
    selection.set_runs(A, B)
    assert comparison.diff is None
    controller.runs[B].info.status = FINISHED
    comparison.look()
    assert comparison.diff is not None
