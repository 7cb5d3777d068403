"""The toolbar: modes that lack input are greyed with the reason, and Run hands over exactly what is set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.export.formats import FORMATS
from evprof.loaders.bundled import bundled_sample
from kept import Keep
from ui.settings.checkpoints import family_of
from ui.settings.request_form import RequestForm
from ui.settings.tool_buttons import MORE_FORMATS
from ui.settings.toolbar import Toolbar
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder


@pytest.fixture
def toolbar(themes: ThemeHolder, tmp_path: Path, keep: Keep) -> Toolbar:
    made = Toolbar(themes, Recent(None), lambda: tmp_path / "traces")
    made.resize(1600, 44)
    made.show()
    made.current.choose_sample(bundled_sample())
    return keep(made)


def requests_of(toolbar: Toolbar) -> list[RunRequest]:
    found: list[RunRequest] = []
    toolbar.run_requested.connect(found.append)
    return found


def test_run_hands_over_what_is_set(toolbar: Toolbar, tmp_path: Path) -> None:
    found = requests_of(toolbar)
    toolbar.prompt.clear()
    QTest.keyClicks(toolbar.prompt, "What moves?")
    toolbar.choose_mode("speculative")
    toolbar.tokens.setValue(17)
    toolbar.trace.setChecked(True)
    QTest.mouseClick(toolbar.run_button, Qt.MouseButton.LeftButton)
    request = found[0]
    assert request.sample.prompt == "What moves?"
    assert request.sample.events_path == bundled_sample().events_path
    assert (request.mode, request.settings.max_new_tokens) == ("speculative", 17)
    assert request.trace.folder == str(tmp_path / "traces")
    assert (request.draft.name, request.target.name) == ("evprof-tiny-eventgpt", "evprof-tiny-video-llava")


def test_modes_without_input_are_grey_and_say_why(toolbar: Toolbar) -> None:
    toolbar.current.choose_sample(Sample(events_path=bundled_sample().events_path))
    toolbar.mode.menu().aboutToShow.emit()
    actions = {str(action.data()): action for action in toolbar.mode.menu().actions()}
    assert not actions["speculative"].isEnabled()
    assert actions["speculative"].text().endswith("needs a video")
    assert actions["draft"].isEnabled()
    assert toolbar.form.mode == "draft"
    toolbar.current.choose_sample(bundled_sample())
    assert toolbar.form.mode == "side-by-side"


def test_nothing_to_run_is_said_beside_run(toolbar: Toolbar) -> None:
    found = requests_of(toolbar)
    told: list[str] = []
    toolbar.failed.connect(told.append)
    toolbar.current.choose_sample(Sample())
    assert toolbar.hint.text() == "Open events or a video first."
    assert not toolbar.run_button.isEnabled()
    QTest.keyClick(toolbar.prompt, Qt.Key.Key_Return)
    assert told == ["Open events or a video first."]
    toolbar.current.choose_sample(Sample(events_path="/nowhere/scene.npy"))
    assert toolbar.hint.text() == "scene.npy is gone; open it again."
    assert not found


def test_while_something_runs_it_can_be_stopped_and_more_put_into_the_queue(toolbar: Toolbar) -> None:
    found = requests_of(toolbar)
    stopped: list[bool] = []
    toolbar.stop_requested.connect(lambda: stopped.append(True))
    toolbar.set_busy(True)
    assert toolbar.run_button.text() == "Queue"
    QTest.mouseClick(toolbar.run_button, Qt.MouseButton.LeftButton)
    assert len(found) == 1
    QTest.mouseClick(toolbar.stop_button, Qt.MouseButton.LeftButton)
    assert stopped == [True]


def test_exports_are_told_by_key(toolbar: Toolbar) -> None:
    told: list[str] = []
    toolbar.export_requested.connect(told.append)
    menu = toolbar.export.menu()
    (more,) = menu.findChildren(QMenu)
    for action in (*menu.actions(), *more.actions()):
        if action.data() is not None:
            action.trigger()
    assert sorted(told) == sorted(["session", *FORMATS, "screenshot"])
    assert told[-len(MORE_FORMATS) :] == [key for key in FORMATS if key in MORE_FORMATS]
    assert len(menu.actions()) <= 7


@pytest.mark.parametrize(
    ("files", "role", "sentence"),
    [
        ({}, "draft", "holds no config.json"),
        ({"config.json": "{"}, "draft", "cannot be read as JSON"),
        ({"config.json": json.dumps({"model_type": "bert"})}, "draft", "model_type is 'bert'"),
        (
            {"config.json": json.dumps({"model_type": "video_llava"})},
            "draft",
            "this side needs a checkpoint of EventGPT",
        ),
        ({"config.json": json.dumps({"model_type": "video_llava"})}, "target", "holds no weights"),
    ],
)
def test_folders_that_are_no_checkpoint_are_refused_in_place(
    toolbar: Toolbar, tmp_path: Path, files: dict[str, str], role: str, sentence: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    popover = toolbar.popover(role)
    before = popover.choice
    popover.choose_folder(str(tmp_path))
    assert sentence in popover.problem.text()
    assert popover.choice == before


def test_a_checkpoint_folder_device_and_arithmetic_reach_the_request(toolbar: Toolbar, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "EventChat_llama"}))
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert family_of(tmp_path, "draft") == "eventgpt"
    popover = toolbar.popover("draft")
    popover.choose_folder(str(tmp_path))
    popover.boxes["device"].setCurrentText("cuda:1")
    popover.boxes["dtype"].setCurrentIndex(2)
    found = requests_of(toolbar)
    toolbar.run()
    draft = found[0].draft
    assert (draft.name, draft.device, draft.dtype) == (str(tmp_path), "cuda:1", "bfloat16")


def test_a_form_keeps_the_wanted_mode() -> None:
    form = RequestForm()
    form.choose_mode("speculative")
    form.sample = Sample(video_path="/a.mp4")
    assert form.mode == "target"
    form.sample = Sample("/a.npy", "/a.mp4")
    assert form.mode == "speculative"
