"""One selection for all: a signal per change, none without."""

from __future__ import annotations

import pytest

from ui.state.selection import Selection, SpanRef, TokenRef


def _listen(selection: Selection) -> list[tuple[str, object]]:
    heard: list[tuple[str, object]] = []
    for name in ("time_range", "span", "token", "runs", "view_range"):
        getattr(selection, f"{name}_changed").connect(lambda value, name=name: heard.append((name, value)))
    return heard


def test_each_change_is_told_once(selection: Selection) -> None:
    heard = _listen(selection)
    for _ in range(2):
        selection.set_time_range((5, 9))
        selection.set_span((1, 7))
        selection.set_token((1, 3))
        selection.set_view_range((0, 100))
    assert heard == [
        ("time_range", (5, 9)),
        ("span", SpanRef(1, 7)),
        ("token", TokenRef(1, 3)),
        ("view_range", (0, 100)),
    ]


def test_a_range_dragged_backwards_is_the_same_range(selection: Selection) -> None:
    selection.set_time_range((9, 5))
    assert selection.time_range == (5, 9)
    heard = _listen(selection)
    selection.set_time_range((5, 9))
    assert heard == []


def test_other_runs_let_go_of_what_was_selected_in_the_old_ones(selection: Selection) -> None:
    selection.set_runs(1, 2)
    selection.set_span((2, 4))
    selection.set_token((1, 0))
    heard = _listen(selection)
    selection.set_runs(3, 2)
    assert [name for name, _ in heard] == ["token", "runs"]
    assert selection.span == SpanRef(2, 4)
    assert selection.token is None


def test_clear_keeps_columns_and_zoom(selection: Selection) -> None:
    selection.set_runs(1, None)
    selection.set_view_range((1, 2))
    selection.set_span((1, 1))
    selection.set_time_range((1, 2))
    selection.clear()
    assert (selection.span, selection.time_range, selection.token) == (None, None, None)
    assert (selection.runs, selection.view_range) == ((1, None), (1, 2))


@pytest.mark.soak
def test_two_thousand_emits_with_receivers_that_come_and_go(selection: Selection) -> None:
    """A soak: signals with Python values, connected and disconnected again and again."""
    seen: list[object] = []
    for number in range(2_000):

        def take(value: object) -> None:
            seen.append(value)

        selection.time_range_changed.connect(take)
        selection.set_time_range((number, number + 1))
        selection.set_span((number, number))
        selection.time_range_changed.disconnect(take)
    assert seen == [(number, number + 1) for number in range(2_000)]
