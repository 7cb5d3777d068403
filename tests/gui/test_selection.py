"""One selection for all: one thing at a time, a signal per change, none without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QObject

from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef

KINDS = (TimeRange, SpanRef, RoundRef, TokenRef)
VALUES = st.one_of(st.none(), *(st.builds(kind, st.integers(0, 3), st.integers(0, 3)) for kind in KINDS))


def _listen(selection: Selection) -> list[tuple[str, object]]:
    heard: list[tuple[str, object]] = []
    for name in ("chosen", "runs", "view_range"):
        getattr(selection, f"{name}_changed").connect(lambda value, name=name: heard.append((name, value)))
    return heard


def test_each_change_is_told_once(selection: Selection) -> None:
    heard = _listen(selection)
    for _ in range(2):
        selection.select(TimeRange(5, 9))
        selection.select(TimeRange(9, 5))
    selection.select(SpanRef(1, 7))
    for _ in range(2):
        selection.set_view_range((0, 100))
    assert heard == [("chosen", TimeRange(5, 9)), ("chosen", SpanRef(1, 7)), ("view_range", TimeRange(0, 100))]


@given(steps=st.lists(VALUES, max_size=8))
def test_whatever_is_selected_replaces_what_was(steps: list[Chosen | None]) -> None:
    selection = Selection()
    heard = _listen(selection)
    before: Chosen | None = None
    for value in steps:
        heard.clear()
        selection.select(value)
        wanted = TimeRange(*sorted(value)) if isinstance(value, TimeRange) else value
        held = [selection.time_range, selection.span, selection.round, selection.token]
        assert [found for found in held if found is not None] == ([] if wanted is None else [wanted])
        assert type(selection.chosen) is type(wanted)
        is_new = (type(wanted), wanted) != (type(before), before)
        assert heard == ([("chosen", wanted)] if is_new else [])
        before = wanted
    QObject.deleteLater(selection)


@pytest.mark.parametrize("chosen", [SpanRef(1, 4), RoundRef(1, 0), TokenRef(1, 0)])
def test_other_runs_let_go_of_what_was_selected_in_the_old_ones(selection: Selection, chosen: Chosen) -> None:
    selection.set_runs(1, 2)
    selection.select(chosen)
    heard = _listen(selection)
    selection.set_runs(1, 3)
    assert (selection.chosen, [name for name, _ in heard]) == (chosen, ["runs"])
    selection.set_runs(2, 3)
    assert (selection.chosen, [name for name, _ in heard]) == (None, ["runs", "chosen", "runs"])


def test_clear_keeps_columns_and_zoom(selection: Selection) -> None:
    selection.set_runs(1, None)
    selection.set_view_range((1, 2))
    selection.select(TimeRange(1, 2))
    selection.clear()
    assert selection.chosen is None
    assert (selection.runs, selection.view_range) == ((1, None), (1, 2))
