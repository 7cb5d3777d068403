"""Right and wrong answers in the window: under the answer, in the list, in the inspector, beside the times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, END, ORIGIN_TARGET, TARGET, SpanRecord, TokenRecord
from evprof.core.run_info import FAILED, FINISHED, RunInfo
from evprof.core.run_log import RunBook
from evprof.core.sample import Sample
from evprof.core.vocabulary.scoring import ExpectedAnswer
from evprof.run.session_writer import SessionWriter
from evprof.session.opened import open_session
from evprof.view.columns import columns_of
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET
from ui.columns.model_pair import ModelPair
from ui.run_facts.figures import FigureRow, compare
from ui.runs.inspector import Inspector
from ui.runs.run_details import Detail, DetailSection
from ui.runs.run_entries import RunEntries
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.widgets.line_list import ListLine

CHOICE = Sample("/gone/a.npy", name="crossing", expected=ExpectedAnswer(choices=("a car", "a bus"), right=1))
WORDS = Sample("/gone/b.npy", name="count", reference="two cars", expected=ExpectedAnswer(also=("2",), task="counting"))
OPEN = Sample("/gone/c.npy", name="open")
CELL = "4 frames"


def _answer(
    scripted_recording: RecordLog, run_id: int, role: str, sample: Sample, text: str, *, status: str | None = FINISHED
) -> None:
    model = SCRIPTED_DRAFT if role == DRAFT else SCRIPTED_TARGET
    group = (run_id + 1) // 2
    info = RunInfo(
        run_id, group, 0, role, "side-by-side", start_ns=0, sample=sample, cell=CELL, models={role: model.facts}
    )
    scripted_recording.post(RunStarted(run_id, info))
    scripted_recording.append(SpanRecord(run_id, 0, -1, END, role, "decode", 0, 5_000_000))
    for place, word in enumerate(text.split()):
        scripted_recording.append(
            TokenRecord(run_id, role, place, place, ORIGIN_TARGET, -1, place * 1_000_000, f" {word}")
        )
    if status is not None:
        scripted_recording.post(RunEnded(run_id, status, None, {"end_ns": 5_000_000, "text": text}))


@pytest.fixture
def scripted_recording() -> RecordLog:
    """A cell of pairs: choice (draft right, target names none), words (half right, right), a question without answer,
    and a pair that goes on."""
    made = RecordLog()
    said = (
        (CHOICE, "B) a bus", "a tram"),
        (WORDS, "two lorries", "Two cars."),
        (OPEN, "a street", "a street"),
        (replace(CHOICE, name="later"), "A", "B"),
    )
    for place, (sample, of_draft, of_target) in enumerate(said):
        status = None if sample.name == "later" else FINISHED
        _answer(made, 2 * place + 1, DRAFT, sample, of_draft, status=status)
        _answer(made, 2 * place + 2, TARGET, sample, of_target, status=status)
    return made


def _said_below(pair: ModelPair, controller: RunController, a: int, b: int) -> list[str]:
    pair.show_columns(*columns_of(controller.runs, (a, b)))
    return [column.expected.text if column.expected.isVisible() else "" for column in (pair.left, pair.right)]


FREE = Sample("/gone/e.npy", name="free", reference="two red cars wait at a crossing in the rain")


@pytest.mark.parametrize(("wanted", "runs"), [("right", {1, 4}), ("Wrong", {2, 3}), ("f1 67", {10}), ("maybe", set())])
def test_runs_are_found_by_what_the_window_says_of_their_answers(
    controller: RunController, scripted_recording: RecordLog, tmp_path: Path, wanted: str, runs: set[int]
) -> None:
    _answer(scripted_recording, 10, TARGET, FREE, "two red cars wait")
    scripted_recording.post(RunEnded(7, FAILED, "No memory.", {}))
    scripted_recording.post(RunEnded(8, FAILED, "No memory.", {}))
    controller.pull()
    entries = RunEntries()
    assert {run_id for run_id, run in controller.runs.items() if entries._holds(run, wanted.casefold().split())} == runs
    SessionWriter(scripted_recording, tmp_path / "scored.evprof").close()
    stored = open_session(tmp_path / "scored.evprof").runs
    assert {run_id for run_id, run in stored.items() if entries._holds(run, wanted.casefold().split())} == runs


def test_the_line_under_an_answer_judges_it_and_says_what_was_expected(
    pair: ModelPair, controller: RunController
) -> None:
    assert _said_below(pair, controller, 1, 2) == ["Right · expected B, “a bus”", "Wrong · expected B, “a bus”"]
    assert _said_below(pair, controller, 3, 4) == [
        "Wrong · F1 50 % · expected “two cars” or “2”",
        "Right · expected “two cars” or “2”",
    ]
    assert pair.right.expected.toolTip() == "“two cars” or “2”"


def _lines(controller: RunController, wanted: str = "") -> list[ListLine]:
    return list(RunEntries().lines(controller.runs, [("cell", CELL)], wanted))


def test_the_list_tells_the_share_of_each_model_and_each_rows_verdicts(controller: RunController) -> None:
    cell, *rows = _lines(controller)
    assert "50 / 50 % right" in cell.second
    assert "draft: 50.0 % of its answers are right" in cell.tip
    assert {row.name: row.second for row in rows} == {
        "crossing": "draft right, target wrong",
        "count": "draft wrong, target right",
        "open": "",
        "later": "",
    }


def test_a_stored_cell_tells_the_same_shares_by_columns(
    controller: RunController, scripted_recording: RecordLog, tmp_path: Path
) -> None:
    for run_id in (7, 8):
        scripted_recording.post(RunEnded(run_id, FINISHED, None, {"end_ns": 5_000_000, "text": "A"}))
    controller.pull()
    SessionWriter(scripted_recording, tmp_path / "scored.evprof").close()
    book = RunBook(open_session(tmp_path / "scored.evprof").recording)
    book.update()
    (stored,) = RunEntries().lines(book.runs)
    cell = _lines(controller)[0]
    assert "33 / 33 % right" in stored.second
    assert (stored.second, stored.tip) == (cell.second, cell.tip)


def _accuracy(inspector: Inspector, selection: Selection, a: int, b: int) -> DetailSection | None:
    selection.set_runs(a, b)
    inspector.lines()
    return next((section for section in inspector.sections if section.head == "Accuracy"), None)


def _named(section: DetailSection, name: str) -> Detail:
    return next(detail for detail in section.details if detail.name == name)


def test_the_inspector_tells_verdicts_with_their_rule(inspector: Inspector, selection: Selection) -> None:
    choice = _accuracy(inspector, selection, 1, 2)
    assert choice is not None
    answer = _named(choice, "answer")
    assert (answer.text, answer.beside, answer.roles) == ("Right", "Wrong", ("good", "bad"))
    assert "an exact match" in answer.tip
    assert "the letter it begins with" in answer.tip
    named = _named(choice, "names choice")
    assert (named.text, named.beside) == ("B", "–")
    assert choice.note == "Expected: B, “a bus”"
    words = _accuracy(inspector, selection, 3, 4)
    assert words is not None
    shared = _named(words, "token F1")
    assert (shared.text, shared.beside) == ("50 %", "100 %")
    assert shared.tip.startswith("token_f1 (version")
    assert words.note == "Expected: “two cars” or “2” · counting"


def _figures(controller: RunController, a: int, b: int) -> dict[str, FigureRow]:
    return {row.metric: row for row in compare(*columns_of(controller.runs, (a, b)))}


def test_the_comparison_tells_scores_in_percent_where_their_rule_is_for_the_question(controller: RunController) -> None:
    choice = _figures(controller, 1, 2)["right"]
    assert (choice.a, choice.b, choice.unit) == ("100.0", "0.0", "%")
    assert "token_f1" not in _figures(controller, 1, 2)
    assert (_figures(controller, 3, 4)["token_f1"].a, _figures(controller, 3, 4)["token_f1"].b) == ("50.0", "100.0")
    assert not {"right", "token_f1"} & _figures(controller, 5, 6).keys()
