"""Long work from the window: forms made of the commands' own options, the queue, and a process that can be stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from evprof.core.recording import RecordLog
from evprof.run.works.work_form import FLAG, OFFERS, ON, PLACE, WorkField, WorkForm, WorkOffer, Works
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import MessageBar
from ui.work.long_work import LongWork
from ui.work.queue_dialog import QueueDialog
from ui.work.work_dialog import WorkDialog
from ui.work.work_queue import DONE, FAILED, STOPPED, WAITING, WORKING, WorkQueue

_CHILD = """
import sys, time
from evprof.run.works.work_form import WorkProgress
words = sys.argv[1:]
print(WorkProgress("counting", 3, 8, "3 of 8 rows · 40 s left").line(), file=sys.stderr, flush=True)
if "--wait" in words:
    sys.stdin.readline()
    print("stopped; go on with --resume", file=sys.stderr)
    raise SystemExit(130)
if "--fail" in words:
    print("evprof: There is no such thing.", file=sys.stderr)
    raise SystemExit(1)
print("counted")
"""

FORM = WorkForm(
    WorkOffer("count", "Count", ("count",), ""),
    "Count things.",
    (
        WorkField("what", "", "what is counted", is_required=True),
        WorkField("output", "--output", "where to", kind=PLACE, is_required=True),
        WorkField("wait", "--wait", "wait for a word", kind=FLAG, group="manners"),
        WorkField("fail", "--fail", "fail at once. Whatever it is.", kind=FLAG, group="manners"),
        WorkField("resume", "--resume", "go on", kind=FLAG, group="manners"),
    ),
)


def _argv(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _CHILD, *words]


@pytest.fixture
def queue(application: object) -> Iterator[WorkQueue]:
    controller = RunController(RecordLog())
    made = WorkQueue(controller, controller)
    made.works = Works(lambda: [FORM], _argv, lambda _: "")
    yield made
    made.close()
    controller.close()


def test_work_is_done_one_after_the_other_and_tells_how_far_it_is(
    queue: WorkQueue, wait_until: Callable[..., Any]
) -> None:
    told: list[str] = []
    first = queue.add(FORM, {"what": "a"})
    second = queue.add(FORM, {"what": "b", "fail": ON})
    queue.changed.connect(lambda: told.append(first.told()))
    assert (first.state, second.state) == (WORKING, WAITING)
    wait_until(lambda: first.is_over)
    assert first.state == DONE
    assert first.told() == "done · counted"
    assert "3 of 8 rows · 40 s left" in told
    assert list(first.lines) == ["counted"]
    queue._controller.pull()
    wait_until(lambda: second.is_over)
    assert second.state == FAILED
    assert second.told() == "failed · There is no such thing."


def test_what_is_stopped_keeps_what_is_done_and_can_go_on(queue: WorkQueue, wait_until: Callable[..., Any]) -> None:
    item = queue.add(FORM, {"what": "a", "wait": ON})
    wait_until(lambda: item.progress is not None)
    queue.stop()
    assert item.told().startswith("stopping")
    wait_until(lambda: item.is_over)
    assert item.state == STOPPED
    assert item.told() == "stopped; go on with --resume"
    assert FORM.argv(item.again) == ["count", "a", "--wait", "--resume"]
    queue.go_on(item)
    (again,) = queue.items
    assert again.values["resume"] == ON


def test_a_program_that_is_not_there_is_told(queue: WorkQueue, wait_until: Callable[..., Any]) -> None:
    queue.works = Works(lambda: [FORM], lambda _: ["/nowhere/at/all"], lambda _: "")
    item = queue.add(FORM, {"what": "a"})
    wait_until(lambda: item.is_over)
    assert item.state == FAILED
    assert "cannot be started" in item.sentence


def test_what_failed_can_be_tried_again_with_what_was_given(
    application: object, themes: ThemeHolder, wait_until: Callable[..., Any]
) -> None:
    window = QWidget()
    controller = RunController(RecordLog())
    work = LongWork(
        window, controller, themes, MessageBar(themes, window), open_paths=lambda _: None, show=lambda *_: None
    )
    work.offer(Works(lambda: [FORM], _argv, lambda _: ""))
    work.begin(FORM, {"what": "a", "output": "b", "fail": ON})
    wait_until(lambda: work.queue.items[0].is_over)
    (queue,) = window.findChildren(QueueDialog)
    again = next(button for button in queue.findChildren(QPushButton) if button.text() == "Try again…")
    again.click()
    (form,) = window.findChildren(WorkDialog)
    assert {name: value for name, value in form.values.items() if value} == {"what": "a", "output": "b", "fail": ON}
    work.close()
    controller.close()
    window.deleteLater()


def test_a_form_says_what_is_missing_and_shows_the_command_it_makes(application: object, themes: ThemeHolder) -> None:
    given: list[dict[str, str]] = []
    dialog = WorkDialog(
        FORM, lambda words: "" if "a" in words else "Not that.", lambda v: given.append(dict(v)), themes
    )
    dialog.start()
    assert dialog.problem.text == "Say what this is to be: What, Output."
    dialog.rows["what"].give("b")
    dialog.rows["output"].give("-x")
    dialog.start()
    assert dialog.problem.text == "Not that."
    dialog.rows["what"].give("a")
    dialog.rows["wait"].give(ON)
    assert dialog.command.text() == "evprof count a --output=-x --wait"
    dialog.search.setText("word")
    assert [name for name, row in dialog.rows.items() if not row.isHidden()] == ["what", "output", "wait"]
    dialog.start()
    assert given[0]["what"] == "a"
    dialog.deleteLater()


def test_every_offer_has_a_form_made_of_its_commands_options() -> None:
    from evprof.cli import build_parser
    from evprof.cli.work_forms import works

    offered = works(build_parser)
    found, check = {form.offer.name: form for form in offered.forms()}, offered.check
    assert list(found) == [offer.name for offer in OFFERS]
    suite = found["measure_suite"]
    assert {"suite", "output"} == {field.name for field in suite.fields if field.is_required}
    gamma = next(field for field in suite.fields if field.name == "gamma")
    assert "draft proposes" in gamma.help
    words = suite.argv({"suite": "stages", "output": "/tmp/x", "repeat": "2"})
    assert check(words) == ""
    assert found["train_adapter"].made({"data": "examples", "output": "adapter"}) is None
    assert "must be a whole number" in check(suite.argv({"suite": "stages", "output": "/tmp/x", "repeat": "two"}))


def test_a_form_says_itself_what_is_wrong_with_an_option(application: QApplication) -> None:
    from evprof.cli import build_parser
    from evprof.cli.work_forms import works

    offered = works(build_parser)
    form = next(form for form in offered.forms() if form.offer.name == "convert")
    started: list[object] = []
    dialog = WorkDialog(form, offered.check, started.append, ThemeHolder())
    dialog.show()
    for name, value in {"input": "a.raw", "output": "b.npz", "start_ms": "soon"}.items():
        dialog.rows[name].give(value)
    row = dialog.rows["start_ms"]
    assert row.isHidden()
    dialog.start()
    assert dialog.problem.text == "Start ms: must be a number, not 'soon'."
    assert row.isVisible()
    dialog.activateWindow()
    application.processEvents()
    assert dialog.focusWidget() is row.editor
    assert not started
    dialog.close()


def test_what_was_made_is_opened_in_the_window(
    application: object, tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    opened: list[str] = []
    controller, themes, window = RunController(RecordLog()), ThemeHolder(), QWidget()
    bar = MessageBar(themes, window)
    work = LongWork(
        window,
        controller,
        themes,
        bar,
        open_paths=lambda paths: opened.append(paths[0]),
        show=lambda *_: None,
    )
    work.offer(Works(lambda: [FORM], _argv, lambda _: ""))
    made = tmp_path / "made.txt"
    made.write_text("x")
    work.begin(FORM, {"what": "a", "output": str(made)})
    wait_until(lambda: work.queue.items[0].is_over)
    (queue,) = window.findChildren(QueueDialog)
    button = next(button for button in queue.findChildren(QPushButton) if button.text() == "Open")
    button.click()
    assert opened == [str(made)]
    made.unlink()
    button.click()
    assert len(opened) == 1
    assert bar.shown is not None
    assert bar.shown.sentence == f"{made} is not there any more."
    work.close()
    controller.close()
