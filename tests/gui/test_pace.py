"""Work that follows news: not too often, and while the window spares what is measured not all at once."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication

from evprof.run.processes.giving_way import WINDOW
from ui.widgets.pace import ASKING_MS, LONG_MS, Pace


@pytest.fixture
def owner(application: QApplication) -> QObject:
    """Whose work it is."""
    return QObject()


def _paced(owner: QObject, done: list[str], name: str, *, long: bool) -> Pace:
    def work() -> None:
        made.begin()
        done.append(name)
        if long:
            time.sleep(2 * LONG_MS / 1000)

    made = Pace(50, work, owner)
    return made


def test_the_first_work_is_done_at_once_and_the_next_when_it_is_time(
    owner: QObject, wait_until: Callable[..., object]
) -> None:
    done: list[str] = []
    one = _paced(owner, done, "one", long=False)
    one.follow()
    assert done == ["one"]
    one.follow()
    one.follow()
    assert done == ["one"]
    wait_until(lambda: len(done) > 1)
    assert done == ["one", "one"]
    assert not one.isActive()


@pytest.mark.parametrize("is_sparing", [False, True])
def test_long_work_of_several_is_done_one_upon_the_other_only_where_nothing_is_spared(
    is_sparing: bool, owner: QObject, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., object]
) -> None:
    monkeypatch.setattr(WINDOW, "is_sparing", is_sparing)
    monkeypatch.setattr(Pace, "_last_long_s", 0.0)
    now_s = [1000.0]

    def tenth_of_ms_later() -> float:
        now_s[0] += 0.0001
        return now_s[0]

    monkeypatch.setattr(time, "perf_counter", tenth_of_ms_later)
    monkeypatch.setattr(time, "sleep", lambda seconds: now_s.append(now_s.pop() + seconds))
    done: list[str] = []
    paces = [_paced(owner, done, name, long=True) for name in "abc"]
    for one in paces:
        one.follow()
    assert done == (["a"] if is_sparing else ["a", "b", "c"])
    wait_until(lambda: len(done) == 3)
    assert sorted(done) == ["a", "b", "c"]


def test_where_the_window_spares_it_waits_longer_unless_it_answers_or_something_else_is_shown(
    owner: QObject, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., object]
) -> None:
    done: list[str] = []
    news = _paced(owner, done, "news", long=False)
    answer = Pace(50, lambda: None, owner, answers=True)
    monkeypatch.setattr(WINDOW, "stretch", 1.0)
    news.follow()
    answer.begin()
    assert news.wait_ms <= 50
    monkeypatch.setattr(WINDOW, "stretch", 1e5)
    assert answer.wait_ms <= 50
    assert news.wait_ms > 1e6
    news.follow()
    assert done == ["news"]
    news.note_other()
    assert news.wait_ms <= 50
    wait_until(lambda: len(done) == 2)
    assert news.wait_ms > 1e6


def test_a_long_wait_ends_when_the_window_spares_nothing_any_more(
    owner: QObject, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., object]
) -> None:
    done: list[str] = []
    one = _paced(owner, done, "one", long=False)
    one.follow()
    monkeypatch.setattr(WINDOW, "stretch", 1e5)
    one.follow()
    assert one.isActive()
    assert one.interval() <= ASKING_MS
    monkeypatch.setattr(WINDOW, "stretch", 1.0)
    wait_until(lambda: len(done) == 2)
