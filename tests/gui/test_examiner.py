"""Asking another program about checkpoints: once each, one at a time, never while a run is measured."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from ui.settings.examiner import Examiner

PROGRAM = """
import json, os, sys, time
question = json.loads(sys.argv[2])
with open(sys.argv[1], "a") as log:
    log.write(question["name"] + "\\n")
if question["name"] == "slow":
    time.sleep(3600)
while question["name"] == "first" and not os.path.exists(sys.argv[1] + ".go"):
    time.sleep(0.005)
if question["name"] == "broken":
    sys.exit("the library is broken")
if question["name"] == "babble":
    print("not a document")
else:
    print(json.dumps({"seen": question["name"]}))
"""

Make = Callable[..., Examiner]
Wait = Callable[..., Any]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def make(application: QApplication, log: Path) -> Iterator[Make]:
    """Examiners whose program notes what it is asked."""
    made: list[Examiner] = []

    def build(**options: Any) -> Examiner:
        made.append(Examiner([sys.executable, "-S", "-c", PROGRAM, str(log)], **options))
        return made[-1]

    yield build
    for examiner in made:
        examiner.close()
        assert not examiner.is_busy


def asked(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def let_go(log: Path) -> None:
    """The program that looks at "first" may end."""
    log.with_name(f"{log.name}.go").touch()


def test_an_answer_is_kept(make: Make, log: Path, wait_until: Wait) -> None:
    examiner = make()
    assert examiner.ask({"name": "a"}) is None
    assert wait_until(lambda: examiner.ask({"name": "a"})) == {"seen": "a"}
    assert examiner.ask({"name": "a"}) == {"seen": "a"}
    assert asked(log) == ["a"]


def test_the_latest_question_goes_next(make: Make, log: Path, wait_until: Wait) -> None:
    """While one is looked at, the person clicks through others: only the last of these is worth a look."""
    examiner = make()
    examiner.ask({"name": "first"})
    wait_until(lambda: asked(log))
    for name in ("second", "third", "fourth"):
        examiner.ask({"name": name})
    let_go(log)
    assert wait_until(lambda: examiner.ask({"name": "fourth"})) == {"seen": "fourth"}
    assert asked(log) == ["first", "fourth"]
    assert examiner.ask({"name": "first"}) == {"seen": "first"}


def test_forgotten_questions_are_not_looked_at(make: Make, log: Path, wait_until: Wait) -> None:
    examiner = make()
    examiner.ask({"name": "first"})
    wait_until(lambda: asked(log))
    examiner.ask({"name": "second"})
    examiner.forget()
    let_go(log)
    wait_until(lambda: not examiner.is_busy)
    assert asked(log) == ["first"]


def test_a_run_is_not_disturbed(make: Make, log: Path, wait_until: Wait) -> None:
    """What is being looked at is ended when a run begins, and nothing is begun before its end."""
    examiner = make()
    examiner.ask({"name": "slow"})
    wait_until(lambda: asked(log))
    examiner.hold(True)
    wait_until(lambda: not examiner.is_busy)
    assert examiner.ask({"name": "a"}) is None
    assert not examiner.is_busy
    assert asked(log) == ["slow"]
    examiner.hold(False)
    assert wait_until(lambda: examiner.ask({"name": "a"})) == {"seen": "a"}


def test_what_fails_is_said_in_a_sentence(make: Make, wait_until: Wait) -> None:
    examiner = make()
    broken = wait_until(lambda: examiner.ask({"name": "broken"}))
    assert broken == {"error": "The checkpoint could not be examined: the library is broken."}
    assert "could not be examined" in wait_until(lambda: examiner.ask({"name": "babble"}))["error"]
    lost = Examiner(["/no/such/program"])
    assert "could not be examined" in wait_until(lambda: lost.ask({"name": "a"}))["error"]
    lost.close()


def test_one_that_takes_too_long(make: Make, wait_until: Wait) -> None:
    examiner = make(timeout_s=0.5)
    assert "took longer than" in wait_until(lambda: examiner.ask({"name": "slow"}))["error"]
