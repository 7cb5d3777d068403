"""Two runs beside each other: which lanes and heads say what, whichever runs are A and B."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication, QLabel

from evprof.core.records import DRAFT, TARGET
from evprof.view.columns import columns_of
from ui.columns.model_pair import ModelPair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.stage_lane import StageLane
from ui.timeline.timeline_view import TimelineView

MS = 1_000_000

EVENTS, VIDEO, SPECULATIVE, PLAIN = 1, 2, 3, 4
"""The scripted runs: two side by side, a speculative one, the target alone."""


@pytest.fixture
def view(
    application: QApplication, controller: RunController, selection: Selection, themes: ThemeHolder
) -> Iterator[TimelineView]:
    made = TimelineView(controller, selection, themes)
    made.resize(1280, 560)
    made.show()
    application.processEvents()
    yield made
    made.close()
    made.deleteLater()


@pytest.fixture
def pair(selection: Selection, themes: ThemeHolder) -> Iterator[ModelPair]:
    made = ModelPair(selection, themes)
    made.resize(1000, 500)
    yield made
    made.close_feeds()
    made.deleteLater()


def _stage_lanes(view: TimelineView) -> list[tuple[str, str]]:
    lanes = [lane for lane in view.lanes if isinstance(lane, StageLane) and not lane.isHidden()]
    return [lane.names() for lane in sorted(lanes, key=lambda lane: lane.y())]


def test_every_model_of_a_stands_above_every_model_of_b(view: TimelineView, application: QApplication) -> None:
    view.selection.set_runs(SPECULATIVE, PLAIN)
    application.processEvents()
    assert _stage_lanes(view) == [
        ("A · run 3", "EventGPT · draft"),
        ("A · run 3", "Video-LLaVA · target"),
        ("B · run 4", "Video-LLaVA · target"),
    ]
    assert [track.role for _, track in view.scene.shown] == [DRAFT, TARGET, TARGET]


def test_a_speculative_run_may_be_b_and_two_of_them_a_and_b(view: TimelineView, application: QApplication) -> None:
    view.selection.set_runs(EVENTS, SPECULATIVE)
    application.processEvents()
    assert [name for name, _ in _stage_lanes(view)] == ["A · run 1", "B · run 3", "B · run 3"]
    view.selection.set_runs(PLAIN, SPECULATIVE)
    application.processEvents()
    assert [name for name, _ in _stage_lanes(view)] == ["A · run 4", "B · run 3", "B · run 3"]


def test_one_run_has_no_letters(view: TimelineView, application: QApplication) -> None:
    view.selection.set_runs(SPECULATIVE, SPECULATIVE)
    application.processEvents()
    assert _stage_lanes(view) == [("EventGPT", "draft"), ("Video-LLaVA", "target")]


def test_lines_of_a_model_in_both_runs_say_whose_they_are(view: TimelineView) -> None:
    view.selection.set_runs(SPECULATIVE, PLAIN)
    assert [view.scene.title(place) for place, _ in view.scene.shown] == [
        "A · run 3 · EventGPT",
        "A · run 3 · Video-LLaVA",
        "B · run 4 · Video-LLaVA",
    ]


def test_the_heads_of_the_columns_say_the_same(pair: ModelPair, controller: RunController) -> None:
    def said(column: int) -> str:
        head = (pair.left, pair.right)[column].head
        return " | ".join(label.text() for label in head.findChildren(QLabel) if label.text() and not label.isHidden())

    pair.show()
    pair.show_columns(*columns_of(controller.runs, (SPECULATIVE, PLAIN)))
    assert said(0).startswith("A · run 3 | ")
    assert said(1).startswith("B · run 4 | ")
    pair.show_columns(*columns_of(controller.runs, (SPECULATIVE, SPECULATIVE)))
    assert "run 3" not in said(0) + said(1)
    pair.hide()
