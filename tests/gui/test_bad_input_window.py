"""What cannot be opened or run is told in the message bar, and the window goes on as if nothing had happened."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QDialog

from bad_files import bad_files, mark_of
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED, FINISHED
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.bundled import bundled_sample
from evprof.run.session_writer import SessionWriter
from evprof.session.tables import FORMAT
from ui.window.app import settle
from ui.window.main_window import MainWindow
from whole_session import load_session
from window_driver import drop, sentences, start_engine

Wait = Callable[..., None]


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A folder of files that are nothing."""
    return bad_files(tmp_path / "bad", bundled_sample())


@pytest.fixture
def goes_on(window: MainWindow, files: dict[str, str], application: QApplication) -> Callable[[], None]:
    """Fails unless no dialog is in the way and a good sample can be opened still."""

    def check() -> None:
        assert application.activeModalWidget() is None
        assert not [dialog for dialog in window.findChildren(QDialog) if dialog.isVisible()]
        window.messages.clear()
        window.open_paths([files["events"], files["video"]])
        settle(application, window)
        assert window.messages.shown is None
        sample = window.toolbar.sample
        assert (sample.events_path, sample.video_path) == (files["events"], files["video"])
        assert window.toolbar.run_button.isEnabled()

    return check


UNKNOWN = {
    "gone.npy": "no such file",
    "empty.npy": "is empty",
    "empty.mp4": "is empty",
    "empty.evprof": "is empty",
    "text.npy": "is not an event recording",
    "text.mp4": "cannot be read as a video",
    "text.evprof": "is of no known kind",
    "sound.mp4": "has no video track",
    "cut.mp4": "cut short",
    "no-pictures": "neither a config.json, nor an event recording, nor pictures.",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_no_input_leaves_the_sample_alone(window: MainWindow, bad: Path, goes_on, name: str) -> None:
    before = window.toolbar.sample
    drop(window, bad / name)
    (sentence,) = sentences(window)
    assert name in sentence
    assert UNKNOWN[name] in sentence
    assert window.toolbar.sample == before
    goes_on()


@pytest.mark.parametrize("name", ["cut.npy", "harm.npy"])
def test_damage_further_inside_is_told_when_the_input_is_shown(
    window: MainWindow, bad: Path, wait_until, goes_on, name: str
) -> None:
    drop(window, bad / name)
    wait_until(lambda: window.messages.shown is not None)
    (sentence,) = sentences(window)
    assert name in sentence
    assert {"cut.npy": "cut short", "harm.npy": "was blocked"}[name] in sentence
    assert not mark_of(bad).exists()
    goes_on()


@pytest.mark.parametrize("how", ["other", "cut", "newer"])
def test_a_bad_session_leaves_the_open_one_alone(
    window: MainWindow, bad: Path, scripted_recording: RecordLog, wait_until, how: str
) -> None:
    good = bad / "good.evprof"
    SessionWriter(scripted_recording, good).close()
    window.open_paths([str(good)])
    wait_until(lambda: window.controller.runs)
    path = bad / f"{how}.evprof"
    content = bytearray(good.read_bytes())
    if how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "newer":
        content[60:64] = (FORMAT + 1).to_bytes(4, "big")
        path.write_bytes(content)
    before = path.read_bytes()
    drop(window, path)
    wait_until(lambda: window.messages.shown is not None)
    (sentence,) = sentences(window)
    assert path.name in sentence
    assert {"other": "no evprof session", "cut": "cannot be read", "newer": "update evprof"}[how] in sentence
    assert len(window.controller.runs) == 4
    assert window.session.path == good
    assert path.read_bytes() == before


def test_places_that_cannot_be_written_to_are_told(
    window: MainWindow, scripted_recording: RecordLog, wait_until, tmp_path
) -> None:
    good = tmp_path / "good.evprof"
    SessionWriter(scripted_recording, good).close()
    window.open_paths([str(good)])
    wait_until(lambda: window.controller.runs)
    (tmp_path / "folder.json").mkdir()
    for kind, place in (
        ("session", tmp_path / "nowhere" / "s.evprof"),
        ("session", tmp_path / "folder.json"),
        ("chrome", tmp_path / "folder.json"),
        ("json", tmp_path / "nowhere" / "s.json"),
        ("csv", good),
    ):
        window.exporting.write(kind, place)
        wait_until(lambda: window.messages.shown is not None)
        (sentence,) = sentences(window)
        assert place.parent.name in sentence
    assert len(load_session(good).recording.messages()) == 4
    assert window.session.path == good


def test_bad_files_in_a_run_fail_the_run_and_the_next_one_works(
    window: MainWindow, bad: Path, files: dict[str, str], wait_until
) -> None:
    """The real engine, in a process of its own: the window's never loads a model library for it."""
    start_engine(window, argv=[sys.executable, "-m", "evprof", "_engine"])
    asked = [
        (Sample(str(bad / "cut.npy"), None), "evprof-tiny-eventgpt", "cut short"),
        (Sample(str(bad / "harm.npy"), None), "evprof-tiny-eventgpt", "was blocked"),
        (Sample(str(bad / "gone.npy"), None), "evprof-tiny-eventgpt", "no such file"),
        (Sample(None, str(bad / "sound.mp4")), "evprof-tiny-video-llava", "has no video track"),
        (Sample(None, str(bad / "cut.mp4")), "evprof-tiny-video-llava", "cut short"),
        (Sample(None, files["video"]), str(bad / "no-pictures"), "config.json is missing"),
        (Sample(None, files["video"], "Where? " * 2000), "evprof-tiny-video-llava", "shorten the prompt"),
        (Sample(None, files["video"], "What is in the scene?"), "evprof-tiny-video-llava", None),
    ]
    for run_id, (sample, model, fact) in enumerate(asked, start=1):
        mode = "draft" if sample.events_path else "target"
        choice = ModelChoice(model)
        window.requests.submit(RunRequest(mode, sample, choice, choice, GenerationSettings(max_new_tokens=2)))
        wait_until(lambda run_id=run_id: run_id in window.controller.runs and not window.controller.is_busy)
        run = window.controller.runs[run_id]
        if fact is None:
            assert run.info.status == FINISHED, run.info.error
            continue
        assert run.info.status == FAILED
        assert fact in str(run.info.error)
        assert [sentence for sentence in sentences(window) if sentence == f"Run {run_id} failed: {run.info.error}"]
    assert not mark_of(bad).exists()
    window.close()
    saved = load_session(bad.parent / "window.evprof").recording
    assert [message.info.status for message in saved.messages() if hasattr(message, "info")] == [
        *[FAILED] * (len(asked) - 1),
        FINISHED,
    ]


def test_a_file_that_cannot_be_read_does_not_stay_a_sample(window: MainWindow, bad: Path, wait_until: Wait) -> None:
    window.samples.read_durations()
    before = list(window.samples.samples)
    window.open_paths([str(bad / "cut.npy")])
    wait_until(lambda: window.messages.shown is not None)
    wait_until(lambda: window.samples.samples == before)
    assert window.toolbar.sample.events_path != str(bad / "cut.npy"), "another sample is the one to run next"
    assert not any(sample.events_path == str(bad / "cut.npy") for sample in window.recent.samples)
    assert "cut.npy" in window.messages.shown.sentence
