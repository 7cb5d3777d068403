"""The trace window, and a run's trace below its stages: pages, tables, timeline, difference, refusals, progress."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunLog
from evprof.loaders.traces.reading import read_trace
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.clock import trace_stretch
from evprof.metrics.traces.tables import Column, time_of
from ui.state.selection import TimeRange
from ui.style.theme import ThemeHolder
from ui.traces.record_table import RecordTable
from ui.traces.slice_lane import SliceHit, SliceLane
from ui.traces.window import TraceDialog
from ui.window.main_window import MainWindow

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
def dialog(application: QApplication, themes: ThemeHolder) -> Iterator[TraceDialog]:
    made = TraceDialog(themes)
    made.show()
    yield made
    made.close()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


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


def test_pages_show_the_figures_of_the_trace(dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    analysis = TraceAnalysis(read_trace(trace_path))
    seen = analysis.overview
    assert seen is not None
    assert dialog.body.currentWidget() is dialog.pages
    assert time_of(seen.wall_ns) in dialog.overview.summary.text()
    shown = {row.name: row.cells[0] for row in dialog.overview.table.rows}
    assert shown == {one.name: time_of(one.ns) for one in seen.categories if one.ns}
    assert cells(dialog.operators)[1][:2] == ["aten::mm", "5"]
    assert cells(dialog.kernels)[1][:3] == ["sm90_xmma_gemm_bf16", "5", "100 µs"]
    assert not dialog.memory.body.isHidden()
    assert dialog.modules.table.isHidden()


def test_operators_by_shapes(dialog: TraceDialog, trace_path: Path) -> None:
    opened(dialog, trace_path)
    dialog.operators_by.choose("shapes")
    assert "[[1, 64], [64, 64]]" in cells(dialog.operators)[1][1].replace("[1,64],[64,64]", "[1, 64], [64, 64]")


def test_a_gzipped_trace_opens_too(dialog: TraceDialog, tmp_path: Path) -> None:
    path = tmp_path / "z.pt.trace.json.gz"
    path.write_bytes(gzip.compress(trace_text().encode()))
    assert opened(dialog, path).read_trace is not None


@pytest.mark.parametrize("content", ["", "{}", "\x00\x01", '{"traceEvents": 7}'])
def test_what_is_no_trace_is_told_in_a_sentence(dialog: TraceDialog, tmp_path: Path, content: str) -> None:
    path = tmp_path / "no.json"
    path.write_text(content, encoding="utf-8")
    opened(dialog, path)
    assert dialog.body.currentWidget() is dialog.empty
    shown = dialog.messages.shown
    assert shown is not None
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
    assert read is not None
    start = read.analysis.start_ns
    dialog.timeline.choose_range(TimeRange(200 * US - start, 500 * US - start))
    assert cells(dialog.timeline.operators)[1][:2] == ["aten::mm", "2"]
    assert not dialog.timeline.below.isHidden()


def test_a_table_sorts_filters_and_copies(application: QApplication) -> None:
    table = RecordTable("rows", (Column("name", "name", "text"), Column("n", "n", "count")))
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
    table.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


# A run's trace below its stages.


OFFSET_US = 5_000_000
"""The trace's clock is as much behind the run's."""


def trace_of_run(run: RunLog) -> str:
    """A trace with the run's stages on a clock of its own, and one operator in each."""
    found = []
    for span in run.stages():
        assert span.host_end_ns is not None
        start, length = span.host_start_ns / US - OFFSET_US, (span.host_end_ns - span.host_start_ns) / US
        found.append(entry(span.name, "user_annotation", start, length))
        found.append(entry("aten::mm", "cpu_op", start + length / 4, length / 2))
        if span.name == "load":
            # Frames are decoded while they are loaded: a part may be called what a stage is called.
            found.append(entry("decode", "user_annotation", start + length / 8, length / 16))
    return json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": 0, "traceEvents": found})


@pytest.fixture
def traced_window(
    application: QApplication, themes: ThemeHolder, scripted_recording: RecordLog, tmp_path: Path
) -> Iterator[MainWindow]:
    """A window whose last run says where its trace lies."""
    path = tmp_path / "run.pt.trace.json"
    made = MainWindow(themes)
    made.resize(1280, 900)
    made.show()
    made.controller.replace_recording(scripted_recording)
    made.controller.pull()
    run = made.controller.runs[4]
    path.write_text(trace_of_run(run), encoding="utf-8")
    run.info = replace(run.info, profiled=True, trace_path=str(path))
    made.selection.set_runs(None, 3)
    made.selection.set_runs(None, 4)
    application.processEvents()
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def opened_lane(window: MainWindow) -> SliceLane:
    """The lane of operators, opened and filled."""
    traces = window.trace_pages.run_traces
    assert traces is not None
    lane = traces.lanes["operators"]
    assert lane.is_wanted()
    assert lane.is_folded
    window.timeline.stack.toggle_fold(lane)
    wait(lambda: lane.lane is not None)
    return lane


def test_operators_stand_below_the_stages_they_ran_in(traced_window: MainWindow) -> None:
    lane = opened_lane(traced_window)
    track = traced_window.timeline.scene.tracks[1]
    assert track is not None
    trace = lane.looks.analysis.trace if lane.looks is not None else None
    assert trace is not None
    stages = {span.name: span for span in track.run.stages()}
    assert lane.looks is not None
    assert lane.looks.analysis.stages
    for stage in lane.looks.analysis.stages:
        assert abs(stage.start_ns + lane.offset_ns - (stages[stage.name].host_start_ns - track.zero_ns)) <= US
    assert {stage.name for stage in lane.looks.analysis.stages} == set(stages)


def test_a_selected_range_names_its_operators_and_what_none_covers(traced_window: MainWindow) -> None:
    opened_lane(traced_window)
    track = traced_window.timeline.scene.tracks[1]
    assert track is not None
    prefill = next(span for span in track.run.stages() if span.name == "prefill")
    assert prefill.host_end_ns is not None
    chosen = TimeRange(prefill.host_start_ns - track.zero_ns, prefill.host_end_ns - track.zero_ns)
    traced_window.selection.select(chosen)
    section = traced_window.inspector.sections[-1]
    assert section.head == "Operators of the trace"
    assert section.details[0].name == "aten::mm × 1"
    assert section.details[-1].name == "no operator"
    whole = chosen.end_ns - chosen.start_ns
    (row,) = trace_stretch(opened_analysis(traced_window), *on_trace(traced_window, chosen)).operators
    assert abs(row.host_self_ns - whole / 2) <= 2 * US


def opened_analysis(window: MainWindow) -> TraceAnalysis:
    """The figures of the trace that is shown."""
    traces = window.trace_pages.run_traces
    assert traces is not None
    looks = traces.lanes["operators"].looks
    assert looks is not None
    return looks.analysis


def on_trace(window: MainWindow, chosen: TimeRange) -> tuple[int, int]:
    """A range of the axis on the trace's clock."""
    traces = window.trace_pages.run_traces
    assert traces is not None
    offset = traces.lanes["operators"].offset_ns
    return chosen.start_ns - offset, chosen.end_ns - offset


def test_a_run_without_a_trace_has_no_such_lanes(traced_window: MainWindow) -> None:
    opened_lane(traced_window)
    traced_window.selection.set_runs(None, 3)
    traces = traced_window.trace_pages.run_traces
    assert traces is not None
    assert not any(lane.is_wanted() or lane.isVisible() for lane in traces.lanes.values())
    assert traces.sections(TimeRange(0, 1_000)) == []
