"""The streaming text: wrapping that grows, hit testing, copying, selecting, shapes that can be seen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest

from evprof.core.records import (
    BEGIN,
    END,
    SETTLED,
    RoundRecord,
    SpanRecord,
    TokenRecord,
)
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel
from ui.columns.answer import MOST_TOKENS
from ui.columns.token_text import TokenText
from ui.state.selection import Chosen, RoundRef, Selection, SpanRef, TimeRange, TokenRef
from ui.style.theme import ThemeHolder


def long_run(tokens: int) -> RunLog:
    run = RunLog(RunInfo(1, 1, 0, "target", "target", start_ns=0))
    for place in range(tokens):
        run.absorb(TokenRecord(1, "target", place, place % 900, "target", -1, place * 5_000_000, " token"))
    return run


def shown_text(run: RunLog, role: str, selection: Selection, themes: ThemeHolder) -> TokenText:
    view = TokenText(selection, themes)
    view.resize(420, 300)
    view.show()
    view.show_column(ShownModel(run, role))
    return view


def test_a_long_answer_is_followed_to_its_end(themes: ThemeHolder, selection: Selection) -> None:
    run = long_run(1500)
    view = shown_text(run, "target", selection, themes)
    assert view.plain_text().count("token") == 1500
    run.absorb(TokenRecord(1, "target", 1500, 1, "target", -1, 1, " more" * 60))
    view.refresh()
    assert view.toPlainText().endswith("more more")
    bar = view.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bar.setValue(10)
    run.absorb(TokenRecord(1, "target", 1501, 1, "target", -1, 1, " more" * 60))
    view.refresh()
    assert bar.value() == 10, "it stays where the person scrolled to"


def test_a_very_long_answer_is_cut_and_copied_whole(themes: ThemeHolder, selection: Selection) -> None:
    run = long_run(MOST_TOKENS + 50)
    view = shown_text(run, "target", selection, themes)
    assert len(view.flow.marks) == MOST_TOKENS
    assert view.toPlainText().count("token") == MOST_TOKENS
    assert view.plain_text().count("token") == MOST_TOKENS + 50


def test_copy_gives_the_plain_answer(runs: dict[int, RunLog], themes: ThemeHolder, selection: Selection) -> None:
    run = runs[3]
    assert run.rejected
    view = shown_text(run, "target", selection, themes)
    QTest.keyClick(view, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == run.info.text
    QTest.keyClick(view, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert view.plain_text() == run.info.text


def center_of(view: TokenText, index: int) -> QPoint:
    """A point of the viewport inside the mark's glyphs, found by asking where it answers."""
    wanted = view.flow.marks[index]
    for y in range(4, view.viewport().height(), 8):
        hits = [x for x in range(0, view.viewport().width(), 2) if view.mark_at(QPoint(x, y)) == wanted]
        if hits:
            return QPoint(hits[len(hits) // 2], y)
    raise AssertionError(f"{wanted.text!r} is nowhere")


def test_a_click_selects_the_token_and_a_selected_token_is_marked(
    runs: dict[int, RunLog], themes: ThemeHolder, selection: Selection
) -> None:
    view = shown_text(runs[2], "target", selection, themes)
    assert view.flow is not None
    index = 7
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=center_of(view, index))
    assert selection.token == (2, view.flow.marks[index].position)
    marked = view.grab().toImage()
    selection.select(None)
    assert view.grab().toImage() != marked
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert selection.token == (2, view.flow.marks[0].position)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert selection.token == (2, view.flow.marks[1].position)


def test_origins_differ_in_shape_and_not_in_colour_alone(themes: ThemeHolder, selection: Selection) -> None:
    """The same word four times in the same place: in greys, every origin still looks different."""
    pictures: dict[str, QImage] = {}
    for origin in ("target", "accepted", "bonus", "rejected"):
        run = RunLog(RunInfo(1, 1, 0, "target", "speculative", status="finished"))
        run.absorb(TokenRecord(1, "target", 0, 1, origin, -1 if origin == "target" else 0, 0, " word"))
        view = shown_text(run, "target", selection, themes)
        picture = view.viewport().grab().toImage().convertToFormat(QImage.Format.Format_Grayscale8)
        # Lines are told apart by where there is ink at all, whatever its shade.
        pictures[origin] = picture.convertToFormat(QImage.Format.Format_Mono)
    names = list(pictures)
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            assert pictures[one] != pictures[other], (one, other)


def speculated() -> RunLog:
    """One round of three drafts, one of which stood, with its measured parts and all odds."""
    run = RunLog(RunInfo(1, 1, 0, "target", "speculative", start_ns=0, status="finished"))
    for span_id, (name, role, start, end, parent) in enumerate(
        (
            ("decode", "target", 100, 400, -1),
            ("draft", "draft", 110, 150, 0),
            ("verify", "target", 150, 200, 0),
        )
    ):
        for phase in (BEGIN, END, SETTLED):
            run.absorb(SpanRecord(1, span_id, parent, phase, role, name, start, -1 if phase == BEGIN else end))
    run.absorb(RoundRecord(1, 0, 110, 40, 50, 5, 3, 1, 2, "2,3,4", 0))
    for position, piece, origin, round_index, t_ns in (
        (0, " A", "target", -1, 100),
        (1, " red", "accepted", 0, 200),
        (2, " bus", "bonus", 0, 200),
        (2, " car", "rejected", 0, 200),
        (3, " near", "rejected", 0, 200),
        (3, " stops", "target", -1, 300),
    ):
        role = "draft" if origin == "rejected" else "target"
        run.absorb(TokenRecord(1, role, position, len(piece), origin, round_index, t_ns, piece))
    return run


def marked_words(view: TokenText) -> list[str]:
    """The words on the ground of what is selected."""
    assert view.flow is not None
    return [view.flow.marks[index].text.strip() for index in view.marked]


@pytest.mark.parametrize(
    ("chosen", "proposed", "answered"),
    [
        (SpanRef(1, 2), ["red", "car", "near"], ["red", "car", "near", "bus"]),
        (SpanRef(1, 1), ["red", "car", "near"], ["red", "car", "near", "bus"]),
        (SpanRef(1, 0), [], []),
        (RoundRef(1, 0), ["red", "car", "near"], ["red", "car", "near", "bus"]),
        (RoundRef(1, 0, 3), ["near"], ["near"]),
        (RoundRef(1, 0, 9), ["red", "car", "near"], ["red", "car", "near", "bus"]),
        (TokenRef(1, 1), ["red"], ["red"]),
        (TokenRef(1, 2), ["car"], ["bus"]),
        (TokenRef(1, 0), [], ["A"]),
        (TokenRef(2, 1), [], []),
        (TimeRange(250, 400), [], ["stops"]),
        (None, [], []),
    ],
)
def test_both_texts_mark_what_is_selected(
    themes: ThemeHolder, selection: Selection, chosen: Chosen | None, proposed: list[str], answered: list[str]
) -> None:
    run = speculated()
    left, right = shown_text(run, "draft", selection, themes), shown_text(run, "target", selection, themes)
    plain = left.grab().toImage(), right.grab().toImage()
    selection.select(chosen)
    assert (marked_words(left), marked_words(right)) == (proposed, answered)
    assert (left.grab().toImage() != plain[0], right.grab().toImage() != plain[1]) == (bool(proposed), bool(answered))


def test_a_click_on_a_rejected_token_selects_it_in_its_round(themes: ThemeHolder, selection: Selection) -> None:
    """Its place in the answer is another token's: that one is not what was clicked."""
    view = shown_text(speculated(), "target", selection, themes)
    index = next(place for place, mark in enumerate(view.flow.marks) if mark.text.strip() == "near")
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=center_of(view, index))
    assert selection.round == RoundRef(1, 0, 3)
    assert marked_words(view) == ["near"]
    QTest.keyClick(view, Qt.Key.Key_Left)
    assert selection.token == (1, 2), "the arrow keys go on from its place"
