"""Moving through an answer of many tokens."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from evprof.core.records import ORIGIN_TARGET, TARGET, TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel
from ui.columns.token_text import TokenText
from ui.state.selection import Selection, TokenRef
from ui.style.theme import ThemeHolder

COUNT = 607


@pytest.fixture
def selection() -> Selection:
    return Selection()


def answer(run_id: int) -> ShownModel:
    """A finished run whose words are the numbers of its tokens."""
    run = RunLog(RunInfo(run_id, run_id, 0, TARGET, TARGET, start_ns=0, status="finished"))
    for place in range(COUNT):
        run.absorb(TokenRecord(run_id, TARGET, place, 1, ORIGIN_TARGET, -1, place, f" {place}"))
    return ShownModel(run, TARGET)


@pytest.fixture
def text(selection: Selection, themes: ThemeHolder, application: QWidget):
    view = TokenText(selection, themes)
    view.resize(420, 300)
    view.show()
    view.show_column(answer(1))
    yield view
    view.close()
    view.deleteLater()


def test_what_is_copied_is_the_whole_answer(text: TokenText) -> None:
    assert text.plain_text().endswith(f" {COUNT - 1}")


def test_a_token_far_down_is_found(text: TokenText, selection: Selection) -> None:
    selection.select(TokenRef(1, COUNT - 2))
    assert text.verticalScrollBar().value() > 0


def test_everything_is_selected_with_the_keys(text: TokenText) -> None:
    QTest.keyClick(text, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert len(text.plain_text().split()) == COUNT


def test_another_answer_is_shown_from_its_beginning(text: TokenText) -> None:
    text.verticalScrollBar().setValue(text.verticalScrollBar().maximum())
    text.show_column(answer(2))
    assert text.verticalScrollBar().value() == 0


def test_what_is_selected_in_an_answer_is_in_sight_when_it_comes(text: TokenText, selection: Selection) -> None:
    selection.select(TokenRef(2, COUNT - 2))
    text.show_column(answer(2))
    assert text.verticalScrollBar().value() > 0
