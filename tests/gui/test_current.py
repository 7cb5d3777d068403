"""What the window names is what it measures, after any sequence of clicks, sessions and runs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication, QLabel, QMessageBox

from benchmarks.part_files import write_results
from evprof.core.protocols import RequestEnded, RunEnded, RunStarted, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, DRAFT, TARGET, SpanRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import CANCELLED, FINISHED, RunInfo
from evprof.core.vocabulary.modes import MODES, mode_of
from evprof.loaders.bundled import bundled_samples
from evprof.run.legacy_import import import_files
from evprof.run.session_writer import SessionWriter
from evprof.session.opened import open_session
from example_counts import examples
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET
from ui.defects import defect_net
from ui.players.clip_range import ClipRange
from ui.run_facts import figures
from ui.run_facts.run_text import mode_name
from ui.runs import pair_figures
from ui.runs.run_list import AGAIN
from ui.samples.clip_choice import identity
from ui.state.current import NO_RUNS
from ui.style.theme import ThemeHolder
from ui.widgets.line_list import LineList
from ui.widgets.message_bar import UNDO
from ui.window import app
from ui.window.main_window import MainWindow
from whole_session import read_session

SEQUENCES = int(os.environ.get("EVPROF_SEQUENCES", "0"))
"""How many sequences are tried; 0: as many as the profile says."""

PROMPTS = ("What moves?", "", "How many cars are there?")


class Engine:
    """A host whose runs begin at once and end when the test says so; no stage takes any time."""

    def __init__(self, recording: RecordLog) -> None:
        self.recording = recording
        self.request: RunRequest | None = None
        self.taken: list[RunRequest] = []

    @property
    def is_busy(self) -> bool:
        return self.request is not None

    def submit(self, request: RunRequest) -> None:
        self.request = request
        self.taken.append(request)
        for run_id, repeat, role in self._runs():
            facts = SCRIPTED_DRAFT.facts if role == DRAFT else SCRIPTED_TARGET.facts
            info = RunInfo(run_id, request.group_id, repeat, role, request.mode, request.settings, request.sample)
            info.models[role] = facts
            info.environment["place"] = len(self.taken) - 1
            self.recording.post(RunStarted(run_id, info))

    def finish(self, last: str = FINISHED) -> None:
        """`last` is the status of the last run."""
        runs = self._runs()
        for run_id, _, _ in runs:
            status = last if run_id == runs[-1][0] else FINISHED
            self.recording.post(RunEnded(run_id, status, None, {"start_ns": 0, "end_ns": 1_000_000}))
        if self.request is not None:
            self.recording.post(RequestEnded(self.request.first_run_id))
        self.request = None

    def _runs(self) -> list[tuple[int, int, str]]:
        """Number, repeat and role."""
        if (request := self.request) is None:
            return []
        roles = [(repeat, role) for repeat in range(request.repeat) for role in mode_of(request.mode).answering]
        return [(run_id, *one) for run_id, one in enumerate(roles, request.first_run_id)]

    def stop(self) -> None: ...

    def attach(self, recording: RecordLog) -> None:
        self.recording = recording

    def close(self) -> None: ...


def click(lines: LineList, n: int) -> None:
    if not lines.lines:
        return
    index = lines.model().index(n % len(lines.lines), 0)
    if index == lines.currentIndex():
        lines._tell(index)  # what a click on the marked line does
    lines.setCurrentIndex(index)


class Walk:
    """A window, an engine, and what was named whenever a run was asked for."""

    def __init__(self, window: MainWindow, folder: Path, files: dict[str, Path]) -> None:
        self.window = window
        self.folder = folder
        self.files = files
        self.engine = Engine(window.session.recording)
        self.named: list[tuple[object, str, str]] = []
        self._numbers = count()
        window.session.begin()
        window.controller.attach_host(self.engine)

    def reset(self) -> None:
        """An empty session and the first sample, with nothing typed."""
        self.settle()
        self.window.session.start_new()
        self.window.samples._samples = list(bundled_samples())
        self.window.current.take_request(bundled_samples()[0], runs=NO_RUNS, cell="")
        self.window.samples._fill()
        self.window.toolbar.choose_mode("target")
        self.window.messages.clear()
        self.named.clear()
        self.engine.taken.clear()

    def settle(self) -> None:
        while self.engine.is_busy or self.window.controller.waiting:
            self.engine.finish()
            self.window.controller.pull()

    # What a person does.

    def step(self, name: str, n: int) -> None:
        getattr(self, f"_{name}")(n)
        self.window.controller.pull()

    def _sample(self, n: int) -> None:
        click(self.window.samples.list, n)

    def _run(self, n: int) -> None:
        click(self.window.runs.list, n)

    def _line(self, n: int) -> Any:
        lines = self.window.runs.list.lines
        return lines[n % len(lines)].key if lines else None

    def _delete(self, n: int) -> None:
        if n % 2:
            self.window.actions_by_name["delete_run"].trigger()
        elif (key := self._line(n // 2)) is not None:
            self.window.runs.list.deleted.emit(key)

    def _undo(self, _n: int) -> None:
        shown = self.window.messages.shown
        if shown is not None and shown.action == UNDO:
            self.window.messages.act()

    def _drag(self, n: int) -> None:
        if (key := self._line(n // 2)) is not None:
            self.window.runs.put(key, n % 2)

    def _new(self, _n: int) -> None:
        self.window.actions_by_name["new_session"].trigger()

    def _open(self, n: int) -> None:
        if self.window.session.refusal_to_leave():
            return
        name = ("scripted", "imported")[n % 2]
        path = self.folder / f"{next(self._numbers)}.evprof"
        shutil.copy(self.files[name], path)
        self.window.session.read(path)

    def _file(self, n: int) -> None:
        sample = bundled_samples()[n // 2 % len(bundled_samples())]
        self.window.open_paths([str(sample.events_path if n % 2 else sample.video_path)], waits=True)

    def _clip(self, n: int) -> None:
        if self.window.toolbar.sample.events_path:
            self.window.clips.take(ClipRange(100_000, n * 1000, 2000))

    def _prompt(self, n: int) -> None:
        text = PROMPTS[n % len(PROMPTS)]
        self.window.toolbar.prompt.setText(text)
        self.window.toolbar.prompt.textEdited.emit(text)

    def _mode(self, n: int) -> None:
        self.window.toolbar.mode.chosen.emit(("side-by-side", "draft", "target", "speculative")[n % 4])

    def _press(self, n: int) -> None:
        window, named = self.window, self.what_is_named()
        waiting = len(window.controller.waiting) + len(self.engine.taken)
        ways = [window.toolbar.run_button.click, window.actions_by_name["run"].trigger]
        if not window.timeline.empty.isHidden():
            ways.append(window.timeline.empty.button.click)
        ways[n % len(ways)]()
        self.named += [named] * (len(window.controller.waiting) + len(self.engine.taken) - waiting)

    def _again(self, n: int) -> None:
        key = self._line(n)
        menu = self.window.runs.menu_of(key)
        action = next((action for action in menu.actions() if action.text() == AGAIN), None)
        run = self.window.controller.run(next(iter(self.window.runs._ids(key)), None))
        if action is not None and run is not None and action.isEnabled():
            before = len(self.window.controller.waiting) + len(self.engine.taken)
            action.trigger()
            named = identity(run.info.sample), run.info.sample.prompt, run.info.mode
            self.named += [named] * (len(self.window.controller.waiting) + len(self.engine.taken) - before)
        menu.deleteLater()

    def _end(self, _n: int) -> None:
        self.engine.finish()

    # What has to hold.

    def what_is_named(self) -> tuple[object, str, str]:
        """The marked sample, the prompt, and the mode that Run stands beside."""
        toolbar = self.window.toolbar
        mode = next(mode for mode in MODES if mode_name(mode) == toolbar.mode.text())
        return self.window.samples.list.current_key, toolbar.prompt.text(), mode

    def check(self) -> None:
        window, form = self.window, self.window.toolbar.form
        sample = form.sample
        assert self.what_is_named() == (identity(sample), sample.prompt, form.mode)
        empty = window.timeline.empty
        if not empty.isHidden():
            assert sample.whole_name in empty.button.text()
        a, b = window.pair.left, window.pair.right
        assert (a.column and a.column.run.run_id, b.column and b.column.run.run_id) == tuple(
            run_id if run_id in window.controller.runs and column.column else None
            for run_id, column in zip(window.selection.runs, (a, b), strict=True)
        )
        assert window.comparison._pair == (a.column, b.column)
        shown = b if b.column is not None or a.column is None else a
        assert shown.player._given is None or shown.player._given.path in (sample.events_path, sample.video_path)
        if shown.player._given is None:
            assert None in (sample.events_path, sample.video_path)
        asked = [(identity(one.sample), one.sample.prompt, one.mode) for one in self.engine.taken]
        assert asked == self.named[: len(asked)]

    def check_file(self) -> None:
        """Each run that was measured into the present session is in its file as it was named."""
        self.settle()
        if not self.engine.taken:
            return
        runs = open_session(self.window.session.on_disk()).runs if self.window.controller.runs else {}
        for info in (run.info for run in runs.values()):
            if (place := info.environment.get("place")) is not None:
                assert info.status == FINISHED
                assert (identity(info.sample), info.sample.prompt, info.mode) == self.named[place]


@pytest.fixture(scope="module")
def walk_files(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("walk")
    results = write_results(folder / "results.json", 4)
    import_files([results], folder / "imported.evprof")
    return {"scripted": saved, "imported": folder / "imported.evprof"}


@pytest.fixture
def walk(themes: ThemeHolder, application: QApplication, tmp_path: Path, walk_files: dict[str, Path]) -> Iterator[Walk]:
    window = MainWindow(themes)
    yield Walk(window, tmp_path, walk_files)
    window.close()
    window.deleteLater()


STEPS = [
    "sample",
    "run",
    "delete",
    "undo",
    "drag",
    "new",
    "open",
    "file",
    "clip",
    "prompt",
    "mode",
    "press",
    "again",
    "end",
]


@settings(max_examples=SEQUENCES or examples(4))
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=20))
def test_what_is_named_is_what_is_measured(walk: Walk, steps: list[tuple[str, int]]) -> None:
    walk.reset()
    walk.check()
    for name, n in steps:
        walk.step(name, n)
        walk.check()
    walk.check_file()


def test_strip_and_lane_of_a_running_stage_end_at_one_moment(window: MainWindow, session_file: Path) -> None:
    window.session.read(session_file)
    recording, t_ns = window.session.recording, monotonic_ns()
    recording.post(RunStarted(5, RunInfo(5, 9, 0, TARGET, "target", start_ns=t_ns)))
    recording.append(SpanRecord(5, 0, -1, BEGIN, TARGET, "load", t_ns, -1))
    for _ in range(3):
        window.controller.pull()
        track, strip = window.timeline.scene.tracks[1], window.pair.right.strip
        assert track is not None
        assert [segment.duration_ns for segment in strip.segments()] == [
            track.now(window.timeline.scene.clock_ns) - t_ns
        ]


def test_no_figure_of_another_session_stands_under_a_new_title(
    window: MainWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    go_on, computed = threading.Event(), figures.pair_figures
    paths = []
    for number, count_of_samples in enumerate((60, 70)):
        paths.append(tmp_path / f"{number}.evprof")
        import_files([write_results(tmp_path / f"{number}.json", count_of_samples)], paths[-1])
    window.session.read(paths[0])
    wait_until(lambda: window.comparison.table.rows)
    monkeypatch.setattr(pair_figures, "pair_figures", lambda *of: go_on.wait(60) and computed(*of))
    window.session.read(paths[1])
    try:
        assert window.comparison.table.rows == []
        assert window.comparison.means.text() == "Computing the means …"
    finally:
        go_on.set()
    wait_until(lambda: window.comparison.table.rows)
    assert "70" in window.comparison.means.text()


def test_the_last_complete_pair_is_shown_after_a_stop(window: MainWindow) -> None:
    """It was the pair that was cut off, beside which the comparison had no B."""
    engine = Engine(window.session.recording)
    window.controller.attach_host(engine)
    window.toolbar.form.take("repeat", 2)
    window.toolbar.run()
    window.controller.pull()
    engine.finish(CANCELLED)
    window.controller.pull()
    assert window.selection.runs == (1, 2)


@pytest.mark.parametrize("side", [0, 1])
def test_an_empty_column_asks_for_a_second_run(window: MainWindow, session_file: Path, side: int) -> None:
    window.session.read(session_file)
    window.following.show_run(3)
    assert window.selection.runs == (3, 3)
    window.runs.put((3,), side)
    assert window.selection.runs == ((3, None), (None, 3))[side]
    column = (window.pair.right, window.pair.left)[side]
    assert "Drag a second run here to compare it with run 3." in [
        label.text() for label in column.empty.findChildren(QLabel)
    ]


@pytest.mark.parametrize(("answer", "is_open"), [("Cancel", True), ("Close", False)])
def test_quitting_during_a_measurement_asks(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, answer: str, *, is_open: bool
) -> None:
    asked: list[str] = []

    def question(*of: Any) -> QMessageBox.StandardButton:
        asked.append(of[2])
        return getattr(QMessageBox.StandardButton, answer)

    monkeypatch.setattr(QMessageBox, "question", question)
    window.controller.attach_host(Engine(window.session.recording))
    window.toolbar.run()
    window.toolbar.run()
    window.actions_by_name["quit"].trigger()
    assert asked == [
        "A measurement is not finished. What was measured so far is kept. 1 run in the queue will not begin."
    ]
    assert window.isVisible() == is_open
    window.leave()
    assert len(asked) == 1
    assert not window.isVisible()


def test_a_window_that_is_told_to_end_keeps_its_theme_and_is_no_crash(
    themes: ThemeHolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    monkeypatch.setattr(defect_net, "log_folder", lambda: tmp_path)
    kept = QSettings(str(tmp_path / "evprof.ini"), QSettings.Format.IniFormat)
    window = MainWindow(themes, kept)
    window.show()
    window.controller.attach_host(Engine(window.session.recording))
    window.toolbar.run()
    with app._watched(window, None):
        assert list(tmp_path.glob("*.txt"))
        themes.toggle()
        signal.raise_signal(signal.SIGTERM)
        wait_until(lambda: not window.isVisible())
    assert not list(tmp_path.glob("*.txt"))
    assert kept.value("window/theme") == "light"
    window.deleteLater()


def test_a_session_is_opened_with_its_last_good_run(window: MainWindow, session_file: Path) -> None:
    recording = read_session(session_file)
    with SessionWriter(recording, session_file, skips_existing=True):
        recording.post(RunStarted(5, RunInfo(5, 9, 0, TARGET, "target")))
        recording.post(RunEnded(5, CANCELLED))
    window.session.read(session_file)
    assert window.controller.runs[5].info.status == CANCELLED
    assert window.selection.runs == (None, 4)


def test_a_session_that_another_evprof_records_is_called_a_copy(
    window: MainWindow, session_file: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    with SessionWriter(read_session(session_file), session_file, skips_existing=True) as other:
        other.claim()
        window.session.read(session_file)
        assert window.windowTitle() == "scripted.evprof (read-only copy) – evprof"
        assert window.messages.shown is not None
        assert "Another evprof records this session." in window.messages.shown.sentence
        window.session.save_as(tmp_path / "own.evprof")
        wait_until(lambda: window.windowTitle() == "own.evprof – evprof")


def test_samples_of_a_session_are_listed_while_it_is_open(window: MainWindow, walk_files: dict[str, Path]) -> None:
    first = [sample.name for sample in window.samples.samples]
    window.session.read(walk_files["imported"])
    assert [sample.name for sample in window.samples.samples] == [*(f"sample {number}" for number in range(4)), *first]
    assert window.toolbar.hint.text() == "Open events or a video first."
    window.session.start_new()
    assert [sample.name for sample in window.samples.samples] == first
    assert window.current.now.sample == window.samples.samples[0]
