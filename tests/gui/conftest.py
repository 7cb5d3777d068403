"""The window without a display: one application, Qt's warnings as failures, and scripted runs to show."""

from __future__ import annotations

import copy
import gc
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import pytest
from PySide6.QtCore import (
    QEvent,
    QMessageLogContext,
    QSettings,
    QtMsgType,
    qInstallMessageHandler,
)
from PySide6.QtWidgets import QApplication, QDialog, QInputDialog, QMessageBox, QWidget

from evprof.core.protocols import Clock, RunEnded, RunStarted, monotonic_ns
from evprof.core.recording import RecordLog
from evprof.core.records import BEGIN, END, SETTLED, SpanRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import FINISHED, ImportedFacts, LengthFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.run.session_writer import SessionWriter
from kept import Keep, T
from scripted_engine import ScriptedEngine
from scripted_pair import SCRIPTED_DRAFT, SCRIPTED_TARGET
from told import told
from ui.columns.model_pair import ModelPair
from ui.runs.inspector import Inspector
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
from ui.timeline.timeline_view import TimelineView
from ui.widgets.following import FollowingPanel
from ui.window.main_window import MainWindow


@pytest.fixture(scope="session")
def application() -> QApplication:
    """The one QApplication of the test process."""
    found = QApplication.instance()
    return found if isinstance(found, QApplication) else QApplication(["evprof-tests"])


@pytest.fixture(autouse=True)
def qt_warnings_fail(application: QApplication) -> Iterator[None]:
    """What Qt warns of fails the test it happens in."""
    lines: list[str] = []

    def listen(kind: QtMsgType, _context: QMessageLogContext, message: str) -> None:
        # The offscreen platform says this of every window and popover; nothing of ours can change it.
        if kind != QtMsgType.QtDebugMsg and not message.startswith("This plugin does not support"):
            lines.append(message)

    before = qInstallMessageHandler(listen)
    yield
    application.processEvents()
    qInstallMessageHandler(before)
    assert not lines, f"Qt warned: {lines}"


@pytest.fixture(autouse=True)
def no_window_left(application: QApplication, qt_warnings_fail: None) -> None:
    """A window that is not freed fails the test that follows; pytest itself holds on to it until its own is over."""
    gc.collect()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    found = application.topLevelWidgets()
    held = [type(widget).__name__ for widget in found]
    for widget in found:
        # Told once: the tests after the next one have a clean start.
        widget.deleteLater()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not held, f"an earlier test left behind: {held}"
    # What is alive without a window stays; the next collection need not look at it, which would take 60 ms.
    gc.freeze()


@pytest.fixture(autouse=True)
def no_modal_dialog(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dialog would block the test: a question for a text is answered with Cancel, whether to quit with Close."""
    monkeypatch.setattr(QMessageBox, "question", lambda *_, **__: QMessageBox.StandardButton.Close)
    monkeypatch.setattr(QInputDialog, "getText", lambda *_, **__: ("", False))


@pytest.fixture
def themes(application: QApplication) -> Iterator[ThemeHolder]:
    """The dark theme, in force."""
    holder = ThemeHolder()
    yield holder
    holder.detach()


@pytest.fixture
def keep(themes: ThemeHolder, application: QApplication) -> Iterator[Keep]:
    """Widgets and controllers, the newest first: ends their work, closes their dialogs and them, and frees them."""
    kept: list[Any] = []

    def add(made: T) -> T:
        kept.append(made)
        return made

    yield add
    for made in reversed(kept):
        if isinstance(made, QWidget):
            for dialog in made.findChildren(QDialog):
                dialog.close()
        for name in ("finish", "close_feed", "close_feeds", "close", "deleteLater"):
            getattr(made, name, bool)()
    application.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def make_window(themes: ThemeHolder, application: QApplication, keep: Keep) -> Callable[..., MainWindow]:
    """Makes visible windows without an engine."""

    def make(settings: QSettings | None = None, path: Path | None = None) -> MainWindow:
        window = keep(MainWindow(themes, settings))
        window.session.path = path
        window.resize(1280, 720)
        window.show()
        application.processEvents()
        return window

    return make


@pytest.fixture
def window(make_window: Callable[..., MainWindow], tmp_path: Path) -> MainWindow:
    """A window whose session is kept in the test's folder."""
    return make_window(path=tmp_path / "window.evprof")


@pytest.fixture
def selection(application: QApplication) -> Selection:
    """Nothing selected."""
    return Selection()


@pytest.fixture
def wait_until(wait_until: Callable[..., Any], application: QApplication) -> Callable[..., Any]:
    """The same, and events are processed meanwhile."""
    return partial(wait_until, meanwhile=application.processEvents)


@pytest.fixture
def pulled(keep: Keep) -> Callable[..., RunController]:
    """The controller over a recording, or the one it is given, after it has taken in what there is."""

    def pull(source: RunController | RecordLog) -> RunController:
        controller = keep(RunController(source)) if isinstance(source, RecordLog) else source
        controller.pull()
        return controller

    return pull


@pytest.fixture
def make_panel(selection: Selection, themes: ThemeHolder, pulled, keep) -> Callable[..., FollowingPanel]:
    """Makes panels of a controller or a recording, with runs in the columns."""

    def make(
        kind: type[FollowingPanel], source: RunController | RecordLog, *runs: int | None, is_shown: bool = True
    ) -> FollowingPanel:
        panel = keep(kind(pulled(source), selection, themes))
        panel.resize(900, 500)
        panel.setVisible(is_shown)
        if runs:
            selection.set_runs(*runs)
        QApplication.processEvents()
        return panel

    return make


MakeTimeline = Callable[..., TimelineView]


@pytest.fixture
def make_timeline(selection: Selection, themes: ThemeHolder, pulled, keep) -> MakeTimeline:
    """Makes visible timelines of a controller or a recording, with runs in the columns."""

    def make(
        source: RunController | RecordLog,
        *runs: int | None,
        size: tuple[int, int] = (1100, 620),
        clock: Clock = monotonic_ns,
    ) -> TimelineView:
        view = keep(TimelineView(pulled(source), selection, themes, clock=clock))
        view.resize(*size)
        view.show()
        QApplication.processEvents()
        if runs:
            selection.set_runs(*runs)
            QApplication.processEvents()
        return view

    return make


@pytest.fixture
def scripted_recording(played: RecordLog) -> RecordLog:
    """Runs 1 and 2 side by side, run 3 speculative, run 4 the target alone: all finished; a copy for each test."""
    return copy.deepcopy(played)


@pytest.fixture(scope="session")
def played() -> RecordLog:
    """The runs of `scripted_recording`, played once and very fast."""
    recording = RecordLog()
    engine = ScriptedEngine(speed=2000)
    sample = Sample("/gone/scene.npy", "/gone/scene.mp4", "What is in the scene?", "scene")
    draft = target = ModelChoice("scripted")
    first_run_id = 1
    for group_id, mode in enumerate(("side-by-side", "speculative", "target"), start=1):
        request = RunRequest(
            mode, sample, draft, target, settings=GenerationSettings(), first_run_id=first_run_id, group_id=group_id
        )
        engine.run(request, recording, threading.Event())
        first_run_id += 2 if mode == "side-by-side" else 1
    return recording


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory, played: RecordLog) -> Path:
    """The runs of `scripted_recording` as a session, written once."""
    path = tmp_path_factory.mktemp("saved") / "scripted.evprof"
    SessionWriter(copy.deepcopy(played), path).close()
    return path


@pytest.fixture
def session_file(tmp_path: Path, saved: Path) -> Path:
    """A copy of it for each test."""
    return Path(shutil.copy(saved, tmp_path))


@pytest.fixture
def controller(scripted_recording: RecordLog, pulled: Callable[..., RunController]) -> RunController:
    """A controller without an engine that has seen the scripted runs."""
    return pulled(scripted_recording)


@pytest.fixture
def pair(selection: Selection, themes: ThemeHolder, keep: Keep) -> ModelPair:
    """Both columns, empty."""
    made = keep(ModelPair(selection, themes))
    made.resize(1000, 420)
    made.show()
    return made


@pytest.fixture
def inspector(selection: Selection, controller: RunController, themes: ThemeHolder, keep: Keep) -> Inspector:
    """The details of what the controller has seen."""
    return keep(Inspector(selection, controller, themes))


@pytest.fixture
def runs(controller: RunController) -> dict[int, RunLog]:
    """The scripted runs by id."""
    return dict(controller.runs)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The bundled sample's two files, by kind."""
    from evprof.loaders.bundled import bundled_sample

    sample = bundled_sample()
    assert sample.events_path is not None
    assert sample.video_path is not None
    return {"events": sample.events_path, "video": sample.video_path}


AddRow = Callable[..., None]


@pytest.fixture(scope="session")
def add_row() -> AddRow:
    """Adds one run of a suite's or an imported file's row to a recording, its stages end to end."""
    return _add_row


def _add_row(
    recording: RecordLog,
    run_id: int,
    stages: dict[str, float],
    *,
    cell: str = "",
    role: str = "target",
    mode: str = "target",
    sample: str = "scene",
    group: int | None = None,
    repeat: int = 0,
    tokens: int = 3,
    status: str = FINISHED,
    error: str | None = None,
    warmup: bool = False,
    settings: dict[str, object] | None = None,
    imported: ImportedFacts | None = None,
    text: str | None = None,
) -> None:
    """`stages` are lengths in ms by name. Tokens of an imported run have ids and no pieces, and the run has no end."""
    model = SCRIPTED_DRAFT if role == "draft" else SCRIPTED_TARGET
    info = RunInfo(
        run_id,
        run_id if group is None else group,
        repeat,
        role,
        mode,
        **told(settings or {}, {"name": sample, "prompt": "What is there?"}),
        start_ns=0,
        warmup=warmup,
        cell=cell,
        imported=imported,
        text=text,
        models={role: model.facts},
        lengths={role: LengthFacts(641, 35, 23, 583)},
    )
    recording.post(RunStarted(run_id, info))
    at = 0
    for span_id, (name, duration_ms) in enumerate(stages.items()):
        end = at + round(duration_ms * 1e6)
        for phase in (BEGIN, END, SETTLED):
            recording.append(SpanRecord(run_id, span_id, -1, phase, role, name, at, -1 if phase == BEGIN else end))
        at = end
    piece = "" if imported is not None else " word"
    step = round(stages.get("decode", 1.0) * 1e6 / max(1, tokens - 1))
    for place in range(tokens if status == FINISHED else 0):
        t_ns = at if imported is not None else at - (tokens - 1 - place) * step
        recording.append(TokenRecord(run_id, role, place, 100 + place, "target", -1, t_ns, piece))
    recording.post(RunEnded(run_id, status, error, {} if imported is not None else {"end_ns": at}))
