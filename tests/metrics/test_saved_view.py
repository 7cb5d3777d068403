"""Saved comparisons: there and back, found again, and refused when damaged."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.errors import UserError
from evprof.metrics.comparison import document as comparison
from evprof.metrics.configurations.saved_view import ColumnName, SavedView, view_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@pytest.fixture
def listed(script, plain_writer) -> list[comparison.Configuration]:
    """Three columns: two of a session, one of another in the folder beside."""
    runs = [plain_writer(script(number)) for number in (1, 2, 3)]
    return [
        *comparison.configurations_of(runs[:2], "/data/new/a.evprof"),
        *comparison.configurations_of(runs[2:], "/data/old/b.evprof"),
    ]


def test_a_view_goes_there_and_back(listed) -> None:
    holder = Path("/data/new/a.evprof")
    view = view_of(listed, listed[2], holder, "model-only", differences_only=True)
    assert view.sessions == ("", "/data/old/b.evprof")
    assert view.baseline == ("/data/old/b.evprof", 3, "target", "target")
    again = SavedView.from_json(json.loads(json.dumps(view.to_json())), "v")
    assert again == view
    assert again.pick(listed, holder) == (listed, listed[2], [])
    assert again.paths(holder) == [holder, Path("/data/old/b.evprof")]


def test_sessions_that_moved_together_are_found(listed, tmp_path) -> None:
    view = view_of(listed, listed[2], Path("/data/new/a.evprof"))
    holder, other = tmp_path / "renamed.evprof", tmp_path / "b.evprof"
    other.touch()
    assert view.paths(holder) == [holder, other]
    moved = [
        comparison.Configuration(column.runs, str(place))
        for column, place in zip(listed, (holder, holder, other), strict=True)
    ]
    assert view.pick(moved, holder) == (moved, moved[2], [])


def test_a_view_keeps_its_own_columns_and_order(listed) -> None:
    holder = Path("/data/new/a.evprof")
    view = view_of([listed[1], listed[0]], listed[0], holder)
    assert view.pick(listed, holder) == ([listed[1], listed[0]], listed[0], [])


def test_columns_that_are_gone_are_told(listed) -> None:
    holder = Path("/data/new/a.evprof")
    view = view_of(listed, listed[0], holder)
    kept, baseline, gone = view.pick(listed[:2], holder)
    assert (kept, baseline) == (listed[:2], listed[0])
    assert gone == [ColumnName("/data/old/b.evprof", 3, "target", "target")]
    with pytest.raises(UserError, match="gone"):
        view.pick(listed[1:], holder)
    with pytest.raises(UserError, match="gone"):
        view.pick(listed[:1], holder)


@given(JSON)
def test_what_is_no_view_is_refused_in_a_sentence(values: object) -> None:
    with pytest.raises(UserError, match="damaged"):
        SavedView.from_json(values, "v")


@given(st.sampled_from(["sessions", "columns", "baseline", "basis"]), JSON)
def test_a_damaged_part_is_refused_or_harmless(part: str, value: object) -> None:
    name = ["", 1, "target", "target"]
    values = {"sessions": [""], "columns": [name, ["", 2, "target", "target"]], "baseline": name, "basis": "model-only"}
    with contextlib.suppress(UserError):
        view = SavedView.from_json(values | {part: value}, "v")
        assert SavedView.from_json(view.to_json(), "v") == view
