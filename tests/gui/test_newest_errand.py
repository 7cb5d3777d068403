"""Errands on a thread: the newest counts, and a defect in one does not end the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication

from ui.state.newest_errand import NewestErrand

Wait = Callable[..., None]


def test_only_the_newest_is_answered(application: QApplication, wait_until: Wait) -> None:
    errand = NewestErrand("evprof-test")
    answers: list[object] = []
    errand.done.connect(answers.append)
    gate, began = threading.Event(), threading.Event()

    def first() -> int:
        began.set()
        gate.wait(300)
        return 1

    errand.ask(first)
    assert began.wait(300)
    errand.ask(lambda: 2)
    errand.ask(lambda: 3)
    assert errand.is_busy
    gate.set()
    wait_until(lambda: not errand.is_busy)
    application.processEvents()
    assert answers == [3]


def test_what_is_forgotten_is_not_answered(application: QApplication) -> None:
    errand = NewestErrand("evprof-test")
    answers: list[object] = []
    errand.done.connect(answers.append)
    errand.ask(lambda: 1)
    errand.wait()
    application.processEvents()
    assert answers == []
    assert not errand.is_busy


def test_a_defect_is_told_and_the_next_one_runs(wait_until: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: told.append(str(arguments.exc_value)))
    errand = NewestErrand("evprof-test")
    answers: list[object] = []
    errand.done.connect(answers.append)

    def broken() -> None:
        raise ValueError("broken")

    errand.ask(broken)
    wait_until(lambda: not errand.is_busy)
    errand.wait()
    errand.ask(lambda: 2)
    wait_until(lambda: not errand.is_busy)
    assert told == ["broken"]
    assert answers == [None, 2]
