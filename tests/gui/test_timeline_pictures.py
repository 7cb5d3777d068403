"""What the timeline keeps from picture to picture changes no pixel of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QImage, QPainter
from PySide6.QtWidgets import QApplication

from benchmarks.crowd import crowded_recording
from example_counts import examples
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder, _line, dark
from ui.timeline.scene import GUTTER_PX
from ui.timeline.timeline_view import TimelineView

Move = tuple[str, float, float]

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("pan"), st.floats(-900, 900), st.just(0.0)),
        st.tuples(st.just("zoom"), st.floats(0.1, 10.0), st.floats(0, 900)),
    ),
    min_size=1,
    max_size=6,
)


def _picture(view: TimelineView) -> QImage:
    QApplication.processEvents()
    return view.grab().toImage()


def _painted_anew(view: TimelineView, themes: ThemeHolder) -> QImage:
    """The picture after everything was painted in other colours."""
    themes.toggle()
    _picture(view)
    themes.toggle()
    return _picture(view)


@pytest.fixture(params=["scripted", "crowded"])
def view(
    request: pytest.FixtureRequest,
    controller: RunController,
    selection: Selection,
    themes: ThemeHolder,
    wait_until: Callable[..., None],
) -> Iterator[TimelineView]:
    """A few spans of two models, and so many that bars are merged; the second of these runs goes on."""
    if request.param == "crowded":
        controller.replace_recording(crowded_recording(20_000, 6_000))
    made = TimelineView(controller, selection, themes, clock=lambda: 0)
    made.resize(900, 560)
    made.show()
    selection.set_runs(1, 2)
    wait_until(lambda: all(lane.updatesEnabled() for lane in made.lanes))
    yield made
    made.close()
    made.deleteLater()


@settings(max_examples=examples(0.6))
@given(moves=MOVES)
def test_where_the_view_was_before_is_not_seen(view: TimelineView, themes: ThemeHolder, moves: list[Move]) -> None:
    view.zooming.fit()
    for kind, amount, at_px in moves:
        if kind == "pan":
            view.zooming.pan(amount)
        else:
            view.zooming.zoom(amount, at_px)
        QApplication.processEvents()
    assert _picture(view) == _painted_anew(view, themes)


@pytest.mark.parametrize("view", ["scripted"], indirect=True)
def test_a_name_that_becomes_known_is_seen_after_the_view_moved(
    view: TimelineView, controller: RunController, themes: ThemeHolder
) -> None:
    view.zooming.zoom(2.0, 300.0)
    lane = view.stage_lane(0)
    gutter = QRect(0, 0, GUTTER_PX, lane.height())
    before = lane.grab(gutter).toImage()
    role, facts = next(iter(controller.runs[1].info.models.items()))
    controller.describe({1: {"models": {role: replace(facts, family="unheard-of", name="another")}}})
    view.zooming.pan(0.25)
    assert lane.names()[1].startswith("another")
    assert lane.grab(gutter).toImage() != before
    assert _picture(view) == _painted_anew(view, themes)


@given(
    text=st.text("abcdefghijxyzÄß µ·0123456789.%", min_size=1, max_size=14).filter(str.strip),
    place=st.tuples(st.floats(0, 20), st.floats(0, 14), st.floats(17, 24)),
    look=st.sampled_from([(9.5, 500), (10.5, 400), (10.5, 500), (11.0, 600), (12.5, 400)]),
    per_px=st.sampled_from([1.0, 1.5, 2.0]),
)
def test_short_texts_are_written_as_qt_lays_them_out(
    application: QApplication,
    text: str,
    place: tuple[float, float, float],
    look: tuple[float, int],
    per_px: float,
) -> None:
    (left, top, height), theme = place, dark()
    room = QRectF(left, top, 200, height)
    # Qt counts in parts of 64: what lies on a half pixel goes to either side.
    assume(abs((top + height / 2 + _line(*look)[1]) * per_px % 1 - 0.5) > 1 / 32)

    def drawn(is_ours: bool) -> QImage:
        picture = QImage(round(240 * per_px), round(44 * per_px), QImage.Format.Format_RGB32)
        picture.setDevicePixelRatio(per_px)
        picture.fill(theme.panel)
        painter = QPainter(picture)
        painter.setPen(theme.text)
        if is_ours:
            theme.write(painter, room, text, *look)
        else:
            painter.setFont(theme.font(*look))
            painter.drawText(room, Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()
        return picture

    assert drawn(True) == drawn(False)


@pytest.mark.parametrize(("size_px", "weight"), [(9.5, 500), (10.5, 400), (10.5, 500), (11.0, 600)])
@given(value=st.floats(0, 1e6))
def test_a_text_is_as_wide_as_its_letters_whatever_its_figures(
    application: QApplication, size_px: float, weight: int, value: float
) -> None:
    metrics = QFontMetricsF(dark().font(size_px, weight))
    for text in (f"Target  {value:.2f} MiB", f"decode  {value:.1f} s · {value:.3g} tok/s", f"x{value:.0f}"):
        assert dark().text_width(text, size_px, weight) == metrics.horizontalAdvance(text)
