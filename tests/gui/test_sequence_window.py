"""Sequences, drops and clips in the window: what falls on it is opened, and the part chosen is what is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent

from evprof.core.events import EventArray
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_samples
from evprof.loaders.events import opening
from evprof.loaders.events.recording import EventRecording, RecordingInfo
from evprof.loaders.pictures.png import encode_png
from scripted_engine import ScriptedEngine
from ui.window.main_window import MainWindow
from window_driver import dragged, drop

Wait = Callable[..., None]


@pytest.fixture
def window(make_window: Callable[..., MainWindow], tmp_path: Path) -> MainWindow:
    """A window that asks the usual question: that of the bundled sample would stay for samples without one."""
    made = make_window(path=tmp_path / "window.evprof")
    made.resize(1280, 800)
    made.toolbar.prompt.setText(Sample().prompt)
    made.toolbar.prompt.textEdited.emit(Sample().prompt)
    return made


@pytest.fixture
def requests(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> list[RunRequest]:
    """What would be asked of an engine."""
    asked: list[RunRequest] = []
    monkeypatch.setattr(window.controller, "submit", lambda *found: asked.extend(found))
    return asked


@pytest.fixture
def sequence(tmp_path: Path) -> Path:
    """Two seconds of events, and pictures from 0.5 s to 1.7 s on the same clock."""
    folder = tmp_path / "interlaken_00_c"
    (folder / "events" / "left").mkdir(parents=True)
    (folder / "images" / "left" / "rectified").mkdir(parents=True)
    number = np.arange(40_000)
    table = np.stack([50_000_000 + number * 50, number % 64, number * 7 % 48, number % 2], axis=1)
    np.save(folder / "events" / "left" / "events.npy", table.astype(np.int64))
    times = []
    for index in range(12):
        picture = np.random.default_rng(index).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        (folder / "images" / "left" / "rectified" / f"{index:06d}.png").write_bytes(encode_png(picture))
        times.append(50_500_000 + index * 100_000)
    (folder / "images" / "timestamps.txt").write_text("\n".join(map(str, times)) + "\n")
    return folder


LEFT, NONE, COPY = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, Qt.DropAction.CopyAction


def drag(window: MainWindow, data: QMimeData) -> QDragEnterEvent:
    event = QDragEnterEvent(QPoint(400, 300), COPY, data, LEFT, NONE)
    window.dragEnterEvent(event)
    return event


def open_whole(window: MainWindow, wait_until: Wait, *paths: Path | str) -> None:
    """Opens inputs and waits until both lie on the clock."""
    window.open_paths([str(path) for path in paths])
    wait_until(lambda: not window.opener.is_busy)
    halves = [window.toolbar.sample.events_path, window.toolbar.sample.video_path]
    wait_until(lambda: len(window.pair.clock.spans) == len([path for path in halves if path]))


# Dropping.


def test_a_sequence_becomes_one_sample_with_its_offset(window: MainWindow, wait_until: Wait, sequence: Path) -> None:
    open_whole(window, wait_until, sequence)
    sample = window.toolbar.sample
    assert sample.events_path == str(sequence / "events" / "left" / "events.npy")
    assert sample.video_path == str(sequence / "images" / "left" / "rectified")
    assert (sample.video_offset_us, sample.name) == (500_000, "interlaken_00_c")
    spans = {span.what: (span.start_us, span.stop_us) for span in window.pair.clock.spans}
    assert spans["events"] == (0, 1_999_950)
    assert spans["video"][0] == 500_000
    assert window.pair.clock.overlap_us == spans["video"]
    assert window.samples.samples[0] == sample


def test_the_video_is_shown_at_its_offset(window: MainWindow, wait_until: Wait, sequence: Path) -> None:
    open_whole(window, wait_until, sequence)
    player = window.pair.right.player
    for position_us, index in ((500_000, 0), (910_000, 4), (0, 0)):
        window.pair.clock.seek(position_us)
        wait_until(lambda: not player.is_waiting)
        image = player.image
        wanted = np.random.default_rng(index).integers(0, 255, (48, 64, 3), dtype=np.uint8)
        colour = image.pixelColor(10, 10)
        assert [colour.red(), colour.green(), colour.blue()] == wanted[10, 10].tolist()
    assert "video from 500 ms on" in player._outside()


def test_dragging_names_what_is_opened(window: MainWindow, wait_until, sequence: Path, files: dict[str, str]) -> None:
    overlay, before = window.drops.overlay, window.toolbar.sample
    assert drag(window, dragged(sequence, files["video"])).isAccepted()
    assert overlay.isVisible()
    assert sequence.name in overlay.text()
    window.dragLeaveEvent(QDragLeaveEvent())
    assert not overlay.isVisible()
    assert window.toolbar.sample == before
    drag(window, dragged(sequence))
    drop(window, sequence)
    assert not overlay.isVisible()
    assert window.toolbar.sample.name == "interlaken_00_c"


def test_looking_never_happens_on_the_windows_thread(
    window: MainWindow, wait_until: Wait, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ui.samples import openings

    asked: list[threading.Thread] = []
    look_at = openings.look_at
    gate = threading.Event()

    def slow(path: str) -> openings.OpeningPath:
        asked.append(threading.current_thread())
        gate.wait(300)
        return look_at(path)

    monkeypatch.setattr("ui.window.opening.look_at", slow)
    window.open_paths([files["events"]])
    wait_until(lambda: window.activity.text)
    assert window.activity.text == "Opening events.npy"
    assert window.opener.is_busy
    gate.set()
    wait_until(lambda: not window.opener.is_busy)
    assert not window.activity.text
    assert {thread.name for thread in asked} == {"evprof-opening"}


# Clips.


def test_the_part_that_is_chosen_is_asked_for(
    window: MainWindow, wait_until: Wait, sequence: Path, requests: list[RunRequest]
) -> None:
    open_whole(window, wait_until, sequence)
    window.pair.clock.seek(700_000)
    window.pair.scrubber.take(50_000)
    window.toolbar.run()
    assert (requests[0].sample.start_us, requests[0].sample.duration_us) == (700_000, 50_000)
    assert requests[0].sample.video_offset_us == 500_000
    line = window.samples.list.lines[0]
    assert (line.name, line.second) == ("interlaken_00_c", "events · video · 50 ms at 700 ms")
    assert window.samples.list.current_key == line.key
    window.pair.scrubber.clip_changed.emit(window.pair.scrubber.clip.all())
    window.toolbar.run()
    assert not requests[1].sample.is_clip
    assert len([one for one in window.samples.samples if one.name == "interlaken_00_c"]) == 1


def test_a_run_shows_the_part_it_took(window: MainWindow, wait_until: Wait, sequence: Path) -> None:
    open_whole(window, wait_until, sequence)
    window.pair.clock.seek(700_000)
    window.pair.scrubber.take(200_000)
    asked = window.toolbar.form.request()
    recording = RecordLog()
    ScriptedEngine(speed=2000).run(replace(asked, mode="target"), recording, threading.Event())
    window.pair.scrubber.clip_changed.emit(window.pair.scrubber.clip.all())
    window.pair.clock.seek(0)
    window._show_recording(recording)
    wait_until(lambda: window.pair.clock.position_us == 700_000)
    (section, *_) = window.inspector.sections
    assert {detail.name: detail.text for detail in section.details}["part"] == "0.70 s to 0.90 s"
    assert (window.toolbar.sample.start_us, window.toolbar.sample.duration_us) == (700_000, 200_000)
    assert not window.pair.scrubber.clip.is_all
    assert window.pair.scrubber.track.is_editable


# Looks and long recordings.


class Endless(EventRecording):
    """An hour of a busy sensor, made up as it is read; reading it whole fails."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.asked: list[tuple[int, int]] = []
        self.threads: set[str] = set()

    @property
    def info(self) -> RecordingInfo:
        return RecordingInfo("dsec-h5", 3_600 * 1_000_000, 64, 48, 10, 10 + 3_600_000_000)

    @property
    def bytes_read(self) -> int:
        return 0

    def chunks(self) -> Iterator[EventArray]:
        raise AssertionError("an hour was read whole")

    def read_time(self, start_us: int, stop_us: int) -> EventArray:
        self.asked.append((start_us, stop_us))
        self.threads.add(threading.current_thread().name)
        times = np.arange(start_us, stop_us, dtype=np.int64)
        return EventArray(
            (times % 64).astype(np.uint16),
            (times // 64 % 48).astype(np.uint16),
            times,
            (times // 5000 % 2).astype(np.uint8),
        )

    def close(self) -> None:
        """Nothing is open."""


def test_a_huge_recording_is_shown_by_windows(window: MainWindow, wait_until, monkeypatch) -> None:
    made: list[Endless] = []

    def open_recording(path: str) -> Endless:
        made.append(Endless(str(path)))
        return made[-1]

    monkeypatch.setattr(opening, "open_recording", open_recording)
    window.show_sample(Sample(bundled_samples()[1].events_path, None))
    player, clock = window.pair.left.player, window.pair.clock
    wait_until(lambda: player.image is not None and not player.is_waiting)
    assert clock.stop_us == 3_600_000_000
    clock.set_suspended(True)
    threading.Event().wait(0.05)
    asked = len(made[0].asked)
    clock.seek(1_800_000_000)
    threading.Event().wait(0.1)
    assert len(made[0].asked) == asked, "something was read while a run is measured"
    clock.set_suspended(False)
    wait_until(lambda: not player.is_waiting)
    assert len(made[0].asked) > asked
    assert max(stop - start for start, stop in made[0].asked) <= 2_000_000
    # The curve of rates looks at a little of each of its bins.
    assert sum(stop - start for start, stop in made[0].asked) < 60_000_000
    assert made[0].threads == {"evprof-pictures"}
