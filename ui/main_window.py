"""The window: makes the views, lays them out and connects them. Each decision lives in a class of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QKeyEvent, QPaintEvent
from PySide6.QtWidgets import QMainWindow, QVBoxLayout, QWidget

from evprof.core.errors import UserError
from evprof.core.messages import Message, RunEnded, RunWarned
from evprof.core.recording import Recording
from evprof.core.request import RunRequest
from evprof.core.run_info import FAILED
from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_samples
from evprof.run.demo import demo_requests
from evprof.view.columns import columns_of
from ui.actions import WindowActions
from ui.housekeeping import Housekeeping
from ui.layout import Body, side_panel
from ui.run_controller import Host, RunController
from ui.run_following import RunFollowing
from ui.selection import Selection
from ui.status_bar import StatusBar
from ui.theme import ThemeHolder, theme_named
from ui.views.comparison import ComparisonPanel
from ui.views.inspector import Inspector
from ui.views.message_bar import MessageBar
from ui.views.model_pair import ModelPair
from ui.views.run_list import RunList
from ui.views.sample_list import SampleList
from ui.views.speculation_panel import SpeculationPanel
from ui.views.timeline.timeline_view import TimelineView
from ui.window_session import WindowSession

MakeHost = Callable[[Recording], Host]
"""Makes the engine host that fills a recording; called after the first paint."""


class MainWindow(QMainWindow):
    """Everything a person sees.

    Signals:
        painted(): the window was painted for the first time.
    """

    painted = Signal()

    def __init__(self, holder: ThemeHolder, settings: QSettings | None = None) -> None:
        """`settings` None: nothing is remembered, nothing restored (pictures, tests)."""
        super().__init__()
        self.holder = holder
        self._settings = settings
        self._is_painted = False
        self.selection = Selection(self)
        self.session = WindowSession(self)
        self.controller = RunController(self.session.recording, parent=self)
        self.controller.numbering = self.session.numbered
        self.following = RunFollowing(self.controller, self.selection)
        self.housekeeping = Housekeeping(self.controller)
        self.actions_by_name = WindowActions(self)
        self._make_views()
        self._connect()
        self._show_title()
        self.setAcceptDrops(True)
        self.setMinimumSize(880, 560)
        self.resize(1440, 900)
        self._restore()

    def _make_views(self) -> None:
        self.messages = MessageBar(self.holder)
        self.pair = ModelPair(self.selection, self.holder)
        self.pair.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.timeline = TimelineView(self.controller, self.selection, self.holder)
        self.comparison = ComparisonPanel(self.holder)
        self.speculation = SpeculationPanel(self.holder)
        self.inspector = Inspector(self.selection, self.controller, self.holder)
        self.status = StatusBar(self.selection, self.holder)
        self.samples = SampleList(self.holder, bundled_samples())
        self.runs = RunList(self.selection, self.controller, self.holder)
        self.body = Body(
            side_panel(self.samples, self.runs, grows=self.runs, margin=0),
            self.pair,
            self.timeline,
            side_panel(self.comparison, self.speculation, self.inspector),
        )
        ground = QWidget()
        column = QVBoxLayout(ground)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.messages)
        column.addWidget(self.body, 1)
        column.addWidget(self.status)
        self.setCentralWidget(ground)

    def _connect(self) -> None:
        self.controller.runs_changed.connect(self._refresh)
        self.controller.message.connect(self._take)
        self.controller.busy_changed.connect(self.pair.set_measuring)
        self.controller.session_replaced.connect(self._forget)
        self.samples.sample_chosen.connect(self.show_sample)
        self.timeline.demo_requested.connect(self.run_demo)
        self.selection.runs_changed.connect(self._show_pair)
        self.session.opened.connect(self._show_recording)
        self.session.saved.connect(self._note_saved)
        self.session.failed.connect(self.messages.post)

    # Views.

    def _show_pair(self, *_: object) -> None:
        a, b = columns_of(self.controller.runs, self.selection.runs)
        self.pair.show_columns(a, b)
        self.comparison.show_columns(a, b)
        self._show_speculation()

    def _forget(self) -> None:
        self.runs.refresh()
        self._show_pair()

    def show_sample(self, sample: Sample) -> None:
        """Makes a sample the one to run next and shows its inputs."""
        self.samples.add(sample)
        self.samples.set_current(sample)
        self.selection.set_runs(None, None)
        self.pair.show_sample(sample)

    def _show_speculation(self) -> None:
        shown = [self.controller.run(run_id) for run_id in self.selection.runs]
        run = next((one for one in reversed(shown) if one is not None and one.info.mode == "speculative"), None)
        self.speculation.show_run(run, self.controller.runs.values())

    def _refresh(self, run_ids: set[int]) -> None:
        self.runs.refresh()
        if not run_ids.intersection(self.selection.runs):
            return
        if self._has_missing_column():
            self._show_pair()
        self.pair.refresh()
        self.comparison.refresh()
        self.inspector.refresh()
        self._show_speculation()

    def _has_missing_column(self) -> bool:
        shown = (self.pair.left.column, self.pair.right.column)
        wanted = columns_of(self.controller.runs, self.selection.runs)
        return any(found is None and column is not None for found, column in zip(shown, wanted, strict=True))

    def _take(self, message: Message) -> None:
        self.status.take(message)
        match message:
            case RunWarned():
                self.messages.post(f"Run {message.run_id}: {message.sentence}", "warn")
            case RunEnded() if message.status == FAILED:
                self.messages.post(f"Run {message.run_id} failed: {message.error or 'no reason was given.'}")

    # Sessions.

    def _show_recording(self, recording: Recording) -> None:
        try:
            self.controller.replace_recording(recording)
        except UserError as error:
            self.messages.post(error.sentence)
            return
        self.following.show_last()
        self._show_title()
        if self.controller.has_host:
            self.session.begin()

    def _show_title(self) -> None:
        self.setWindowTitle(f"{self.session.title} – evprof")
        self.status.set_session(self.session.title)

    def _note_saved(self, path: str) -> None:
        self._show_title()
        self.messages.post(f"Session saved as {path}.", "info")

    def start_engine(self, make_host: MakeHost) -> None:
        """Makes the host and begins to keep the session on disk; for after the first paint."""
        self.session.begin()
        self.controller.attach_host(make_host(self.session.recording))
        self.controller.start()
        self.housekeeping.start()
        self.samples.read_durations()

    def run_demo(self) -> None:
        """Runs the bundled pair on the bundled sample: side by side, then speculative."""
        self.submit(*demo_requests())

    def submit(self, *requests: RunRequest) -> None:
        """Hands requests over and brings their runs into view; a refusal is told in the message bar."""
        self.following.begin()
        try:
            self.controller.submit(*requests)
        except UserError as error:
            self.messages.post(error.sentence)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is being read any more."""
        return self.session.is_idle

    # Qt's own.

    def paintEvent(self, event: QPaintEvent) -> None:
        """Tells, once, that there is something to see."""
        super().paintEvent(event)
        if not self._is_painted:
            self._is_painted = True
            QTimer.singleShot(0, self.painted.emit)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys that no view wanted go to the timeline."""
        if not self.timeline.take_key(event):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """As above."""
        if not self.timeline.release_key(event):
            super().keyReleaseEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files are welcome."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Opens what was dropped."""
        self.open_paths([url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()])
        event.acceptProposedAction()

    def open_paths(self, paths: Sequence[str], *, waits: bool = False) -> None:
        """Opens sessions, events and videos; `waits` reads a session before returning (pictures)."""
        for path in paths:
            if path.endswith(".evprof"):
                if waits:
                    self.session.read(Path(path))
                else:
                    self.session.open(Path(path))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ends the engine, saves what is left, remembers the layout."""
        self._remember()
        self.housekeeping.stop()
        self.controller.close()
        self.session.close()
        self.pair.close_feeds()
        self.samples.close_reader()
        self.session.wait()
        super().closeEvent(event)

    def _remember(self) -> None:
        if self._settings is None:
            return
        self._settings.setValue("window/geometry", self.saveGeometry())
        self._settings.setValue("window/columns", self.body.saveState())
        self._settings.setValue("window/rows", self.body.rows.saveState())
        self._settings.setValue("window/theme", self.holder.theme.name)

    def _restore(self) -> None:
        if self._settings is None:
            return
        self.holder.set_theme(theme_named(str(self._settings.value("window/theme", self.holder.theme.name))))
        for key, restore in (
            ("window/geometry", self.restoreGeometry),
            ("window/columns", self.body.restoreState),
            ("window/rows", self.body.rows.restoreState),
        ):
            state = self._settings.value(key)
            if isinstance(state, QByteArray):
                restore(state)
