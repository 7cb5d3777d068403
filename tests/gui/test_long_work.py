"""Long work from the window: forms in plain words, the queue, and a process that can be stopped."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QPushButton, QWidget

from evprof.core.recording import RecordLog
from evprof.loaders.manifests.manifest import read_manifest
from evprof.run.works.work_form import COLLECT, FORMS, MORE, ON, PLACE, TRAIN, WorkField, WorkForm, Works
from kept import Keep
from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.widgets.message_bar import MessageBar
from ui.window.main_window import MainWindow
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
    "count",
    "Count",
    ("count",),
    "Count things.",
    (
        WorkField("what", "", "Things"),
        WorkField("output", "--output", "Output folder", kind=PLACE),
        WorkField("more", "", "More options", kind=MORE),
    ),
    "",
    can_resume=True,
)


def _argv(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", _CHILD, *words]


@pytest.fixture
def queue(keep: Keep) -> WorkQueue:
    controller = keep(RunController(RecordLog()))
    made = WorkQueue(controller, controller)
    made.works = Works(_argv, lambda _: "")
    return keep(made)


def test_work_is_done_one_after_the_other_and_tells_how_far_it_is(queue: WorkQueue, wait_until) -> None:
    told: list[str] = []
    first = queue.add(FORM, {"what": "a"})
    second = queue.add(FORM, {"what": "b", "more": "--fail"})
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
    item = queue.add(FORM, {"what": "a", "more": "--wait"})
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
    queue.works = Works(lambda _: ["/nowhere/at/all"], lambda _: "")
    item = queue.add(FORM, {"what": "a"})
    wait_until(lambda: item.is_over)
    assert item.state == FAILED
    assert "cannot be started" in item.sentence


def test_what_failed_can_be_tried_again_with_what_was_given(themes: ThemeHolder, wait_until, keep) -> None:
    window, controller = keep(QWidget()), keep(RunController(RecordLog()))
    bar = MessageBar(themes, window)
    work = keep(LongWork(window, controller, themes, bar, open_paths=lambda _: None, show=lambda *_: None))
    work.offer(Works(_argv, lambda _: ""))
    work.begin(FORM, {"what": "a", "output": "b", "more": "--fail"})
    wait_until(lambda: work.queue.items[0].is_over)
    (queue,) = window.findChildren(QueueDialog)
    again = next(button for button in queue.findChildren(QPushButton) if button.text() == "Try again…")
    again.click()
    (form,) = window.findChildren(WorkDialog)
    assert {name: value for name, value in form.values.items() if value} == {
        "what": "a",
        "output": "b",
        "more": "--fail",
    }


def test_a_form_says_what_is_missing_and_shows_the_command_it_makes(themes: ThemeHolder, keep: Keep) -> None:
    given: list[dict[str, str]] = []
    works = Works(_argv, lambda words: "" if "a" in words else "--output: must be another folder.")
    dialog = keep(WorkDialog(FORM, works, lambda values: given.append(dict(values)), themes))
    dialog.start()
    assert dialog.problem.text == "Please choose: things and output folder."
    dialog.rows["what"].give("b")
    dialog.rows["output"].give("-x")
    dialog.start()
    assert dialog.problem.text == "Output folder: must be another folder."
    dialog.rows["what"].give("a")
    dialog.rows["more"].give("--wait --note 'two words'")
    assert dialog.command.text() == "evprof count a --output=-x --wait --note 'two words'"
    dialog.start()
    assert given[0]["what"] == "a"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_field_is_an_option_of_its_command_and_is_asked_once(form: WorkForm) -> None:
    from evprof.cli import build_parser
    from evprof.cli.work_forms import works

    titles = [field.title for field in form.fields]
    assert len(titles) == len(set(titles))
    taken = {"kind": "eagle", "repeat": "2", "overwrite": ON, "more": "--limit 3" if form.name != TRAIN else "--seed 3"}
    values = {field.name: taken.get(field.name, f"a {field.name}") for field in form.fields}
    assert works(build_parser).check(form.argv(values)) == ""
    assert all(works(build_parser).check(form.argv({**values, field.name: ""})) for field in form.missing({}))


def test_the_suite_form_measures_what_is_open_and_says_how_much(
    window: MainWindow, session_file, tmp_path, monkeypatch, wait_until
) -> None:
    from evprof.cli import build_parser
    from evprof.cli.work_forms import works

    monkeypatch.setattr("ui.work.work_dialog.autosave_folder", lambda: tmp_path / "sessions")
    window.open_paths([str(session_file)], waits=True)
    window.long_work.offer(works(build_parser))
    chosen = window.samples.samples[1]
    window.show_sample(chosen)
    window.long_work.ask("measure_suite", {"draft": "scripted-eventgpt", "target": "scripted-video-llava"})
    (dialog,) = window.findChildren(WorkDialog)
    wait_until(lambda: bool(dialog.size_line.text()))
    told = dialog.size_line.text()
    assert f"1 configuration on 1 sample ({chosen.name}), 10 times each: 22 runs, 2 of them warm-up." in told
    assert re.search(r"About .*, by 4 runs of this session", told)
    assert read_manifest(dialog.values["data"]).samples[0].prompt == chosen.prompt
    assert works(build_parser).check(dialog.form.argv(dialog.values)) == ""
    dialog.rows["target"].give("another-model")
    wait_until(lambda: "The time is not known" in dialog.size_line.text())
    dialog.rows["repeat"].give("two")
    wait_until(lambda: "must be a whole number" in dialog.size_line.text())
    dialog.close()


def test_training_takes_the_folder_that_was_collected(themes: ThemeHolder, wait_until, keep) -> None:
    window, controller = keep(QWidget()), keep(RunController(RecordLog()))
    bar = MessageBar(themes, window)
    work = keep(LongWork(window, controller, themes, bar, open_paths=lambda _: None, show=lambda *_: None))
    work.offer(Works(_argv, lambda _: ""))
    work.begin(next(form for form in FORMS if form.name == COLLECT), {"manifest": "a.csv", "output": "/x/examples"})
    wait_until(lambda: bar.shown is not None)
    assert bar.shown.action == "Train an adapter…"
    bar.act()
    (dialog,) = window.findChildren(WorkDialog)
    assert (dialog.form.name, dialog.values["data"]) == (TRAIN, "/x/examples")


def test_what_was_made_is_opened_in_the_window(tmp_path: Path, wait_until: Callable[..., Any]) -> None:
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
    work.offer(Works(_argv, lambda _: ""))
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
    assert bar.shown.sentence == f"{made} is not there any more."
    work.close()
    controller.close()
