"""The model columns: what they show of finished, growing, failed and missing runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord, TokenRecord
from evprof.core.run_info import CANCELLED, FAILED, RunInfo
from evprof.core.run_log import RunBook, RunLog
from evprof.core.sample import Sample
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.columns.stage_strip import StageStrip
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder


def test_a_side_by_side_pair_shows_both_models(pair: ModelPair, runs: dict[int, RunLog]) -> None:
    pair.show_columns(*columns_of(runs, (1, 2)))
    for column, run in ((pair.left, runs[1]), (pair.right, runs[2])):
        assert column.text.plain_text() == run.info.text
        counters = dict(column.counters.entries)
        assert counters["tokens"] == str(len(run.tokens))
        assert counters["TTFT"] != "–"
        assert counters["KV"] != "–"
        assert len(column.frames.cells()) == len(run.frames[column.side])


def test_a_speculative_run_shows_proposals_left_and_the_answer_right(pair: ModelPair, runs: dict[int, RunLog]) -> None:
    pair.show_columns(*columns_of(runs, (3, 3)))
    run = runs[3]
    assert pair.right.text.plain_text() == run.info.text
    flow = pair.left.text.flow
    assert {mark.origin for mark in flow.marks} == {"accepted", "rejected"}
    counters = dict(pair.left.counters.entries)
    assert counters["drafted"] == str(sum(entry.drafted for entry in run.rounds))
    assert counters["accepted"] == str(sum(entry.accepted for entry in run.rounds))


def test_a_failed_run_says_why_and_keeps_its_text(pair: ModelPair, runs: dict[int, RunLog]) -> None:
    recording = RecordLog()
    book = RunBook(recording)
    recording.post(RunStarted(1, RunInfo(1, 1, 0, "target", "target", start_ns=0)))
    recording.append(TokenRecord(1, "target", 0, 5, "target", -1, 1_000_000, " Half"))
    recording.post(RunEnded(1, FAILED, "The engine process ended during this run."))
    book.update()
    pair.show_columns(None, ShownModel(book.runs[1], "target"))
    assert pair.right.failure.isVisible()
    assert pair.right.failure.text() == "The engine process ended during this run."
    assert pair.right.text.plain_text() == "Half"
    pair.show_columns(None, ShownModel(runs[2], "target"))
    assert not pair.right.failure.isVisible()


def test_gone_files_leave_the_runs_own_frames(pair: ModelPair, runs: dict[int, RunLog]) -> None:
    pair.show_columns(*columns_of(runs, (1, 2)))
    assert pair.left.player.note.startswith("scene.npy is gone")
    assert pair.right.player.note.startswith("scene.mp4 is gone")
    first = pair.right.player.image
    assert first is not None
    assert first == pair.right.pictures.images[0]
    pair.clock.seek(pair.clock.duration_us)
    assert pair.right.player.image == pair.right.pictures.images[-1]


def test_a_click_on_a_frame_takes_both_players_there(pair: ModelPair, runs: dict[int, RunLog]) -> None:
    pair.show_columns(*columns_of(runs, (1, 2)))
    cell = pair.right.frames.cells()[5]
    QTest.mouseClick(pair.right.frames, Qt.MouseButton.LeftButton, pos=cell.center().toPoint())
    assert pair.clock.position_us == runs[2].frames["target"][5].start_us


def test_a_sample_without_a_run_is_already_shown(
    pair: ModelPair, selection: Selection, files: dict[str, str], wait_until: Callable[..., None]
) -> None:
    selection.current.choose_sample(Sample(files["events"], files["video"]))
    pair.show_columns(None, None)
    wait_until(lambda: pair.left.player.image is not None and pair.right.player.image is not None)
    assert pair.clock.duration_us > 1_000_000
    assert pair.left.text.plain_text() == ""


def strip_of(run: RunLog, role: str, selection: Selection, themes: ThemeHolder, now_ns: int = 0) -> StageStrip:
    strip = StageStrip(selection, themes, clock=lambda: now_ns)
    strip.resize(400, 20)
    strip.show_column(ShownModel(run, role))
    return strip


def test_stages_share_the_bar_by_duration(themes: ThemeHolder, selection: Selection) -> None:
    run = RunLog(RunInfo(1, 1, 0, "target", "target", start_ns=0))
    start = 0
    for number, (name, length) in enumerate((("load", 1), ("prefill", 100), ("decode", 300))):
        for phase in (BEGIN, END, SETTLED):
            end = -1 if phase == BEGIN else start + length
            run.absorb(SpanRecord(1, number, -1, phase, "target", name, start, end))
        start += length
    strip = strip_of(run, "target", selection, themes)
    widths = {part.span.name: part.width for part in strip.segments()}
    assert widths["load"] >= 3
    assert widths["decode"] / widths["prefill"] == pytest.approx(3, rel=0.02)
    assert sum(widths.values()) + 2 == pytest.approx(400)
    middle = next(part for part in strip.segments() if part.span.name == "prefill")
    QTest.mouseClick(strip, Qt.MouseButton.LeftButton, pos=QPoint(round(middle.left + 5), 10))
    assert selection.span == (1, 1)


@pytest.mark.parametrize("status", [CANCELLED, FAILED])
def test_a_stage_that_was_cut_off_keeps_its_place(status: str, themes: ThemeHolder, selection: Selection) -> None:
    """An engine that was ended could not say when: its last token tells how far it came."""
    run = RunLog(RunInfo(1, 1, 0, "target", "target", start_ns=0))
    for phase in (BEGIN, END, SETTLED):
        run.absorb(SpanRecord(1, 0, -1, phase, "target", "prefill", 0, -1 if phase == BEGIN else 100))
    run.absorb(SpanRecord(1, 1, -1, BEGIN, "target", "decode", 100, -1))
    run.absorb(TokenRecord(1, "target", 0, 5, "target", -1, 300, " A"))
    run.absorb(TokenRecord(1, "target", 1, 5, "target", -1, 400, " car"))
    run.info.status = status
    strip = strip_of(run, "target", selection, themes, 10_000)
    prefill, decode = strip.segments()
    assert (prefill.duration_ns, decode.duration_ns) == (100, 300)
    assert decode.width / prefill.width == pytest.approx(3, rel=0.02)
