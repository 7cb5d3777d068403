"""The trace window: pages, tables, timeline, refusals, progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.errors import UserError
from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.tables import Column, time_of
from kept import Keep
from ui.state.selection import TimeRange
from ui.style.theme import ThemeHolder
from ui.traces.slice_lane import SliceHit, SliceLane
from ui.traces.window import TraceDialog
from ui.widgets.record_table import RecordTable

US = 1_000

STAGES = (("load", 100, 50), ("prefill", 200, 300), ("decode", 520, 400))
"""Name, start and length in µs."""


def entry(name: str, category: str, start: float, length: float, **more: Any) -> dict[str, Any]:
    """A slice of a thread, or of a stream with `stream=`."""
    stream = more.pop("stream", None)
    place = {"pid": 0, "tid": stream} if stream is not None else {"pid": 900, "tid": 900}
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": length, "args": more, **place}


def trace_text(*, slow: float = 1.0) -> str:
    """A small trace of a traced run: three stages, operators inside, a kernel each, memory."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 900, "tid": 0, "ts": 0, "args": {"name": "python"}},
        entry("ProfilerStep#0", "user_annotation", 90, 420),
        entry("ProfilerStep#1", "user_annotation", 515, 410),
    ]
    for name, start, length in STAGES:
        found.append(entry(name, "user_annotation", start, length))
    for number, start in enumerate((210, 260, 530, 600, 700), 1):
        calls = {"External id": number, "Input Dims": [[1, 64], [64, 64]]}
        found.append(entry("aten::mm", "cpu_op", start, 30 * slow, **calls))
        launch = {"External id": number, "correlation": number}
        found.append(entry("cudaLaunchKernel", "cuda_runtime", start + 5, 8, **launch))
        kernel = {"grid": [8, 1, 1], "block": [128, 1, 1], "device": 0, "stream": 7, "registers per thread": 32}
        facts = {**launch, **kernel, "shared memory": 0, "est. achieved occupancy %": 50, "blocks per SM": 0.5}
        found.append(entry("sm90_xmma_gemm_bf16", "kernel", start + 40, 20 * slow, **facts) | {"pid": 0, "tid": 7})
        memory = {"Device Type": 1, "Device Id": 0, "Addr": number, "Bytes": 512 * number}
        totals = {"Total Allocated": 512 * number, "Total Reserved": 4096}
        found.append(
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 900, "tid": 900}
            | {"ts": start + 10, "args": {**memory, **totals}}
        )
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "A GPU", "numSms": 16}]}
    return json.dumps({**head, "baseTimeNanoseconds": 0, "traceEvents": found})


@pytest.fixture
def trace_path(tmp_path: Path) -> Path:
    path = tmp_path / "a.pt.trace.json"
    path.write_text(trace_text(), encoding="utf-8")
    return path


@pytest.fixture
def dialog(themes: ThemeHolder, keep: Keep) -> TraceDialog:
    made = TraceDialog(themes)
    made.show()
    return keep(made)


def wait(is_over: Callable[[], bool]) -> None:
    """Lets the window go on until something is over."""
    for _ in range(1_000):
        if is_over():
            return
        QTest.qWait(10)
    raise AssertionError("it did not end")


def opened(dialog: TraceDialog, path: Path) -> TraceDialog:
    """The dialog when it has read a trace."""
    dialog.open_trace(path)
    wait(lambda: not dialog.reading.is_busy)
    return dialog


def cells(table: RecordTable) -> list[list[str]]:
    """What a table shows."""
    return [line.split("\t") for line in table.model.as_text(range(table.model.rowCount())).split("\n")]


class Board:
    url = "http://127.0.0.1:6006/"
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_tensorboard_opens_the_folder_of_the_trace_and_ends_with_the_window(
    dialog: TraceDialog, trace_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []
    pages: list[str] = []
    board = Board()
    monkeypatch.setattr("evprof.run.tensorboard.open_tensorboard", lambda folder: folders.append(folder) or board)
    monkeypatch.setattr("ui.traces.window.QDesktopServices.openUrl", lambda url: pages.append(url.toString()))
    assert not dialog.tensorboard_button.isVisible()
    opened(dialog, trace_path)
    assert dialog.tensorboard_button.isVisible()
    dialog.tensorboard_button.click()
    wait(lambda: bool(pages))
    assert (folders, pages) == ([trace_path.parent], [board.url])
    dialog.close()
    assert board.is_closed


def test_tensorboard_that_does_not_start_is_a_sentence(dialog: TraceDialog, trace_path: Path, monkeypatch) -> None:
    def fail(folder: Path) -> Board:
        raise UserError("TensorBoard cannot start.")

    monkeypatch.setattr("evprof.run.tensorboard.open_tensorboard", fail)
    opened(dialog, trace_path).open_tensorboard()
    wait(lambda: (shown := dialog.messages.shown) is not None and shown.sentence == "TensorBoard cannot start.")


def test_pages_show_the_figures_of_the_trace(dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    analysis = TraceAnalysis(read_trace(trace_path))
    seen = analysis.overview
    assert dialog.body.currentWidget() is dialog.pages
    assert time_of(seen.wall_ns) in dialog.overview.summary.text()
    shown = {row.name: row.cells[0] for row in dialog.overview.table.rows}
    assert shown == {one.name: time_of(one.ns) for one in seen.categories if one.ns}
    assert cells(dialog.operators)[1][:2] == ["aten::mm", "5"]
    assert cells(dialog.kernels)[1][:3] == ["sm90_xmma_gemm_bf16", "5", "100 µs"]
    assert not dialog.memory.body.isHidden()


def test_operators_by_shapes(dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    dialog.operators_by.choose("shapes")
    assert "[[1, 64], [64, 64]]" in cells(dialog.operators)[1][1].replace("[1,64],[64,64]", "[1, 64], [64, 64]")


@pytest.mark.parametrize("content", ["", "{}", "\x00\x01", '{"traceEvents": 7}'])
def test_what_is_no_trace_is_told_in_a_sentence(dialog: TraceDialog, tmp_path: Path, content: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(content, encoding="utf-8")
    opened(dialog, path)
    assert dialog.body.currentWidget() is dialog.empty
    shown = dialog.messages.shown
    assert "no.json" in shown.sentence


def test_reading_can_be_stopped(dialog: TraceDialog, trace_path: Path) -> None:
    dialog.open_trace(trace_path)
    assert dialog.body.currentWidget() is dialog.waiting
    dialog.stop()
    QTest.qWait(100)
    assert dialog.body.currentWidget() is dialog.empty
    assert dialog.read_trace is None


def device_lane(dialog: TraceDialog) -> SliceLane:
    """The lane of the stream."""
    return next(one for one in dialog.timeline.lanes if one.lane is not None and one.lane.is_device)


def hit_in(lane: SliceLane) -> SliceHit:
    """The first slice from the left."""
    found = (lane.hit(QPointF(float(x), 10.0)) for x in range(int(lane.canvas_width)))
    hit = next(one for one in found if one is not None)
    assert isinstance(hit, SliceHit)
    return hit


def test_a_kernel_tells_what_launched_it(application: QApplication, dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    dialog.pages.setCurrentWidget(dialog.timeline)
    application.processEvents()
    hit = hit_in(device_lane(dialog))
    assert hit.title == "sm90_xmma_gemm_bf16"
    dialog.timeline.choose(hit)
    facts = {row.name: row.cells[0] for row in dialog.timeline.facts.rows}
    assert (facts["launched by"], facts["grid"]) == ("cudaLaunchKernel", "[8, 1, 1]")
    QTest.keyClick(dialog.timeline, Qt.Key.Key_Escape)
    assert dialog.timeline.chosen is None


def test_a_range_is_summed_by_operator(dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    read = dialog.read_trace
    start = read.analysis.start_ns
    dialog.timeline.choose_range(TimeRange(200 * US - start, 500 * US - start))
    assert cells(dialog.timeline.operators)[1][:2] == ["aten::mm", "2"]
    assert not dialog.timeline.below.isHidden()


def test_a_table_sorts_filters_and_copies(keep: Keep) -> None:
    table = keep(RecordTable("rows", (Column("name", "name", "text"), Column("n", "n", "count"))))
    table.show_records([SimpleNamespace(name=name, n=n) for name, n in (("beta", 2), ("alpha", None), ("gamma", 10))])
    table.view.sortByColumn(1, Qt.SortOrder.DescendingOrder)
    assert [row.name for row in table.model.records] == ["gamma", "beta", "alpha"]
    table.view.sortByColumn(1, Qt.SortOrder.AscendingOrder)
    assert [row.name for row in table.model.records] == ["beta", "gamma", "alpha"]
    table.filter.setText("AM")
    assert [row.name for row in table.model.records] == ["gamma"]
    assert table.count.text() == "1 line"
    table.view.setFocus()
    QTest.keySequence(table.view, "Ctrl+C")
    assert QGuiApplication.clipboard().text() == "name\tn\ngamma\t10"
