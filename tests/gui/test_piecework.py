"""Work in pieces: the window has turns in between, and the newest work counts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from ui.run_facts.pieces import Pieces, finished
from ui.widgets.piecework import Piecework

Wait = Callable[..., None]


def _sum(count: int, heard: list[str]) -> Pieces[int]:
    total = 0
    for number in range(count):
        heard.append(f"piece {number}")
        total += number
        yield
    return total


def test_at_once_it_comes_to_the_same() -> None:
    assert finished(_sum(4, [])) == 6


def test_the_window_has_a_turn_between_two_pieces(application: QApplication, wait_until: Wait) -> None:
    owner, heard = QObject(), list[str]()
    work = Piecework(owner, piece_ms=0)
    turns = QTimer(owner)
    turns.timeout.connect(lambda: heard.append("turn"))
    turns.start(0)
    found: list[object] = []
    work.done.connect(found.append)
    work.begin(_sum(3, heard))
    assert not any(word.startswith("piece") for word in heard)
    assert work.is_busy
    wait_until(lambda: bool(found))
    assert (found, work.is_busy) == ([3], False)
    for number in range(2):
        assert "turn" in heard[heard.index(f"piece {number}") : heard.index(f"piece {number + 1}")]


def test_short_pieces_share_a_turn(application: QApplication, wait_until: Wait) -> None:
    owner, heard = QObject(), list[str]()
    work = Piecework(owner, piece_ms=1_000_000)
    turns = QTimer(owner)
    turns.timeout.connect(lambda: heard.append("turn"))
    turns.start(0)
    work.begin(_sum(3, heard))
    wait_until(lambda: not work.is_busy)
    assert "turn" not in heard[heard.index("piece 0") :]


def test_only_what_was_begun_last_is_answered(application: QApplication, wait_until: Wait) -> None:
    owner, heard = QObject(), list[str]()
    work = Piecework(owner, piece_ms=0)
    found: list[object] = []
    work.done.connect(found.append)
    work.begin(_sum(100, heard))
    wait_until(lambda: len(heard) > 1)
    work.begin(_sum(2, []))
    wait_until(lambda: not work.is_busy)
    assert found == [1]
    work.begin(_sum(2, []))
    work.forget()
    application.processEvents()
    assert (found, work.is_busy) == ([1], False)


def test_a_defect_ends_the_work_alone(
    application: QApplication, wait_until: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: told.append(str(error)))
    owner = QObject()
    work = Piecework(owner, piece_ms=0)

    def broken() -> Pieces[int]:
        yield
        raise ValueError("broken")

    work.begin(broken())
    wait_until(lambda: not work.is_busy)
    assert told == ["broken"]
