"""The timeline as a screen reader finds it: a list for each lane, an item for each stage and round."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QApplication

from ui.state.run_controller import RunController
from ui.state.selection import RoundRef, Selection, SpanRef
from ui.style.theme import ThemeHolder
from ui.timeline.round_lane import RoundLane
from ui.timeline.timeline_view import TimelineView

_NAME, _DESCRIPTION = QAccessible.Text.Name, QAccessible.Text.Description


@pytest.fixture
def timeline(
    application: QApplication, controller: RunController, selection: Selection, themes: ThemeHolder
) -> Iterator[TimelineView]:
    made = TimelineView(controller, selection, themes)
    made.resize(1000, 600)
    made.show()
    selection.set_runs(3, 4)
    application.processEvents()
    yield made
    made.close()
    made.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    gc.collect()


def _found(widget: object) -> QAccessibleInterface:
    found = QAccessible.queryAccessibleInterface(widget)  # type: ignore[arg-type]  # a widget is an object
    assert found is not None
    return found


def _items(tree: QAccessibleInterface) -> list[str]:
    return [tree.child(index).text(_NAME) for index in range(tree.childCount())]


def test_every_stage_of_a_model_is_an_item_of_its_lane(timeline: TimelineView) -> None:
    tree = _found(timeline.stage_lane(1))
    assert tree.role() == QAccessible.Role.List
    items = _items(tree)
    assert [words.split(",")[0] for words in items] == ["load", "preprocess", "vision", "prefill", "decode"]
    assert all(" ms, from " in words or " s, from " in words or " µs, from " in words for words in items), items
    item = tree.child(2)
    assert item.role() == QAccessible.Role.ListItem
    assert item.parent().text(_NAME) == tree.text(_NAME) != ""
    assert tree.indexOfChild(item) == 2
    assert tree.rect().intersects(item.rect())
    assert tree.child(99) is None
    assert tree.childAt(item.rect().center().x(), item.rect().center().y()).text(_NAME) == item.text(_NAME)


def test_rounds_say_how_many_were_accepted(timeline: TimelineView) -> None:
    lane = next(lane for lane in timeline.lanes if isinstance(lane, RoundLane) and lane.is_wanted())
    items = _items(_found(lane))
    assert items
    assert items[0].startswith("round 1, ")
    assert " accepted, " in items[0]


def test_what_is_selected_is_said(timeline: TimelineView, selection: Selection, controller: RunController) -> None:
    tree = _found(timeline.stage_lane(1))
    spans = controller.runs[4].spans.values()
    prefill = next(span for span in spans if span.name == "prefill" and span.parent_id < 0)
    selection.select(SpanRef(4, prefill.span_id))
    assert timeline.accessibleDescription().startswith("selected in ")
    assert ": prefill, " in timeline.accessibleDescription()
    assert [tree.child(index).state().selected for index in range(tree.childCount())] == [0, 0, 0, 1, 0]
    assert tree.text(_DESCRIPTION).startswith("selected: prefill")
    selection.select(RoundRef(3, 0))
    assert "round 1, " in timeline.accessibleDescription()
    selection.select(None)
    assert timeline.accessibleDescription() == ""


def test_the_tree_follows_other_runs_and_outlives_nothing(timeline: TimelineView, selection: Selection) -> None:
    tree = _found(timeline.stage_lane(0))
    item = tree.child(0)
    selection.set_runs(None, None)
    QApplication.processEvents()
    assert tree.childCount() == 0
    assert not item.isValid()
    assert item.text(_NAME) == ""
