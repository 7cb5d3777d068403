"""The lane of power: there only where something was sampled, what it draws, and what it says under the pointer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPointF
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.records import PowerRecord
from evprof.core.run_log import RunLog
from evprof.view.columns import columns_of
from fake_nvml import (
    MS,
    FakeClock,
    FakeGpu,
    FakeNvml,
    WatchedRun,
    day_of_a_gpu,
    powered_recording,
    watch,
)
from ui.run_facts import figures
from ui.runs.run_details import summary_sections
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.timeline.power_lane import PowerLane
from ui.timeline.scene import GUTTER_PX
from ui.timeline.timeline_view import TimelineView


def lane_of(view: TimelineView) -> PowerLane:
    return view.power


def at(view: TimelineView, t_ms: float) -> QPointF:
    lane = lane_of(view)
    return QPointF(view.scene.scale.x(round(t_ms * 1e6)), lane.height() / 2)


def colored(lane: PowerLane, color: QColor, y: int) -> list[int]:
    """Where a row of the picture has this colour, in px of the drawing area."""
    image = QImage(lane.size(), QImage.Format.Format_RGB32)
    lane.render(image)
    return [x - GUTTER_PX for x in range(GUTTER_PX, image.width()) if image.pixelColor(x, y) == color]


def test_it_is_absent_where_nothing_was_sampled(
    make_timeline: Callable[..., TimelineView], scripted_recording: RecordLog
) -> None:
    view = make_timeline(scripted_recording, 1, 2)
    assert lane_of(view).isHidden()
    metrics = {row.metric for row in figures.compare(*[None, None])}
    assert metrics.isdisjoint({"energy_per_answer_j", "energy_per_token_j"})


def test_it_draws_a_line_for_each_run(make_timeline: Callable[..., TimelineView]) -> None:
    view = make_timeline(powered_recording(), 1, 2)
    lane = lane_of(view)
    assert not lane.isHidden()
    assert [one.name for one in lane.series()] == ["A · run 1 · Video-LLaVA GPU", "B · run 2 · Video-LLaVA GPU"]
    assert [text for _, text in lane.scale_marks()] == ["800 W", "0"]
    assert [one.told for one in lane.series()] == ["mean 457 W", "mean 419 W"]
    assert max(float(one.levels.max()) for one in lane.series()) == 610.0


def test_a_bar_stands_where_a_gpu_was_slowed_down(
    make_timeline: Callable[..., TimelineView], themes: ThemeHolder
) -> None:
    view = make_timeline(powered_recording(), 1, 2)
    lane = lane_of(view)
    found = colored(lane, themes.theme.warn, lane.height() - 4)
    # From 13.0 s of the clock on, 3.77 s after the run's zero, to the run's end.
    assert found[0] == pytest.approx(view.scene.scale.x(3_780_000_000), abs=12)
    assert found[-1] == pytest.approx(view.scene.scale.x(5_900_000_000), abs=3)
    assert lane.names()[1] == "bar: slowed down"
    calm = make_timeline(powered_recording(), 1, None)
    assert colored(lane_of(calm), themes.theme.warn, lane_of(calm).height() - 4) == []
    assert lane_of(calm).names()[1] == "whole devices"


def test_the_pointer_tells_power_and_state(make_timeline: Callable[..., TimelineView]) -> None:
    view = make_timeline(powered_recording(), 1, 2)
    hit = lane_of(view).hit(at(view, 4500))
    assert hit is not None
    assert hit.facts == [("B · run 2 · Video-LLaVA GPU", "390.0 W · 1,410 MHz · 88 °C · 97 % busy")]
    assert hit.note == "B · run 2 · Video-LLaVA GPU: slowed down by thermal slowdown (software)"
    early = lane_of(view).hit(at(view, 500))
    assert early is not None
    assert [name for name, _ in early.facts] == ["A · run 1 · Video-LLaVA GPU", "B · run 2 · Video-LLaVA GPU"]
    assert early.note == ""


def test_a_run_alone_names_its_devices_and_dashes_the_idle_one(make_timeline: Callable[..., TimelineView]) -> None:
    recording, clock = RecordLog(), FakeClock()
    gpus = [day_of_a_gpu(), FakeGpu(lambda _: 75.0, uuid="GPU-1")]
    run = WatchedRun(1, devices=(("target", "cuda:0"), ("draft", "cuda:1")))
    watch(recording, run, FakeNvml(gpus, clock).meters(), clock)
    for t_ms in range(1200, 7000, 100):
        recording.append(PowerRecord(1, t_ms * MS, "cpu:0", -1, 90_000, -1, -1, -1, -1, -1, -1))
    lane = lane_of(make_timeline(recording, None, 1))
    assert [(one.name, one.is_dashed) for one in lane.series()] == [("CPU", True), ("GPU 0", False), ("GPU 1", False)]


def test_withheld_power_is_taken_from_the_counter_and_neither_gives_no_lane(
    make_timeline: Callable[..., TimelineView],
) -> None:
    names = ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"]
    wanted = []
    for count in (1, 2):
        recording, clock = RecordLog(), FakeClock()
        gpu = FakeGpu(withheld=set(names[:count]))
        watch(recording, WatchedRun(), FakeNvml([gpu], clock).meters(), clock)
        wanted.append(lane_of(make_timeline(recording, None, 1)).is_wanted())
    assert wanted == [True, False]


def test_it_follows_a_live_run(make_timeline: Callable[..., TimelineView], application: QApplication) -> None:
    live, clock = RecordLog(), FakeClock()
    view = make_timeline(live, None, 1)
    assert not lane_of(view).is_wanted()
    watch(live, WatchedRun(), FakeNvml([day_of_a_gpu()], clock).meters(), clock)
    view.controller.pull()
    application.processEvents()
    assert not lane_of(view).isHidden()


def test_the_details_tell_energy_by_stage_and_what_slowed_a_run(application: QApplication) -> None:
    sections = {
        section.head: section for section in summary_sections(*columns_of(runs_of(powered_recording()), (1, 2)))
    }
    told = {detail.name: (detail.text, detail.beside) for detail in sections["Energy"].details}
    assert told["total"] == ("1,187 J", "2,474 J")
    assert told["hottest"] == ("61 °C", "88 °C")
    assert told["throttled"] == ("–", "38 % of samples")
    assert [detail.swatch for detail in sections["Energy"].details][1:6] == [
        "load",
        "preprocess",
        "vision",
        "prefill",
        "decode",
    ]
    assert "Run 2: Slowed down: cuda:0 by thermal slowdown (software)" in sections["Warnings"].note


def runs_of(recording: RecordLog) -> dict[int, RunLog]:
    controller = RunController(recording)
    controller.pull()
    return dict(controller.runs)
