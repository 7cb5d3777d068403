"""The trace window: a trace of torch's profiler, read natively."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QProgressBar,
    QPushButton,
    QStackedWidget,
    QTabWidget,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.texts import plain
from evprof.core.units import percent_text
from evprof.metrics.traces.tables import DEVICE, KERNELS, OPERATORS, OPERATORS_BY_SHAPES, Column
from ui.state.newest_errand import NewestErrand
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID, ThemeHolder
from ui.traces.overview_page import MemoryPage, OverviewPage
from ui.traces.reading import ReadTrace, TraceReading
from ui.traces.timeline_page import TimelinePage
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.message_bar import KEPT, MessageBar
from ui.widgets.panel_parts import EmptyState, WordSwitch, say, sentence
from ui.widgets.record_table import RecordTable
from ui.widgets.text_dialogs import FreeDialog

if TYPE_CHECKING:
    from evprof.run.tensorboard import TensorBoard

_MOST = 1000
"""The name's share of its line, beside all other room's."""

FILES = "Torch traces (*.pt.trace.json *.pt.trace.json.gz *.json *.json.gz);;All files (*)"


class TraceDialog(FreeDialog):
    """Opens a trace in the background and shows its pages."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__("Torch trace", parent)
        self.read_trace: ReadTrace | None = None
        self.setAcceptDrops(True)
        self.setMinimumSize(760, 480)
        resize_in_room(self, 1280, 800)
        self.reading = TraceReading(self)
        self.messages = MessageBar(themes)
        self._make_pages(themes)
        self._make_waiting()
        self.name = sentence("title")
        self.open_button = QPushButton("Open trace…")
        self.open_button.clicked.connect(self.browse)
        self.tensorboard_button = QPushButton("Open in TensorBoard")
        self.tensorboard_button.clicked.connect(self.open_tensorboard)
        self._board: TensorBoard | None = None
        self._is_closed = threading.Event()
        self._starting = NewestErrand("evprof-tensorboard", self)
        self._starting.done.connect(self._show_board)
        bar = beside((self.name, _MOST), None, self.tensorboard_button, self.open_button, spacing=GRID)
        bar.setContentsMargins(2 * GRID, GRID, 2 * GRID, GRID)
        self.body = QStackedWidget()
        for page in (self.empty, self.waiting, self.pages):
            self.body.addWidget(page)
        stacked(bar, (self.body, 1), on=self, spacing=0)
        self.messages.float_over(self)
        self.reading.went_on.connect(self._show_progress)
        self.reading.done.connect(self._take)
        self.reading.failed.connect(self._fail)
        self._show_state()

    def _make_pages(self, themes: ThemeHolder) -> None:
        self.empty = EmptyState(
            "No trace yet",
            "A trace of torch.profiler (.pt.trace.json, also .gz) shows here where its time went: by category, "
            "operator, kernel and moment. Runs of evprof make one with Trace switched on.",
            "Open trace…",
        )
        self.empty.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        self.empty.activated.connect(self.browse)
        self.overview, self.memory = OverviewPage(themes), MemoryPage(themes)
        self.operators_by = WordSwitch([("name", "By name"), ("shapes", "By input shapes")])
        self.operators = RecordTable("Operators", OPERATORS, self.operators_by)
        no_kernels = EmptyState(
            "No kernels in this trace",
            "Kernels are what operators launch on a GPU; each one's time, occupancy and tensor cores appear here. A "
            "run on a GPU with Trace switched on records them. For the processor, see Operators.",
        )
        self.kernels = RecordTable("Kernels", KERNELS, empty=no_kernels)
        self.operators_by.chosen.connect(self._show_operators)
        self.timeline = TimelinePage(themes)
        self.pages = QTabWidget()
        self.pages.setDocumentMode(True)
        margin = QWidget()  # the first tab begins where the name above it does
        stacked(on=margin, margins=(2 * GRID, 0, 0, 0))  # Qt asks for its size hint, whatever width is fixed
        self.pages.setCornerWidget(margin, Qt.Corner.TopLeftCorner)
        for title, page in (
            ("Overview", self.overview),
            ("Operators", _inset(self.operators)),
            ("Kernels", _inset(self.kernels)),
            ("Memory", _inset(self.memory)),
            ("Timeline", self.timeline),
        ):
            self.pages.addTab(page, title)
        self.overview.setContentsMargins(2 * GRID, 0, GRID, 0)

    def _make_waiting(self) -> None:
        self.waiting = QWidget()
        self.progress = QProgressBar()
        self.progress.setRange(0, 1000)
        self.progress.setTextVisible(False)
        self.how_far = sentence()
        stop = in_role(QPushButton("Stop"), "link")
        stop.clicked.connect(self.stop)
        line = beside((self.how_far, 1), stop, spacing=GRID)
        stacked(line, self.progress, None, on=self.waiting, margins=(4 * GRID, 4 * GRID, 4 * GRID, 0), spacing=GRID)

    def browse(self) -> None:
        folder = str(self.read_trace.path.parent) if self.read_trace is not None else ""
        path, _ = QFileDialog.getOpenFileName(self, "Open trace", folder, FILES)
        if path:
            self.open_trace(Path(path))

    def open_trace(self, path: Path, name: str = "") -> None:
        """Reads a trace; its title is `name`, or the file's name."""
        self.read_trace = None
        say(self.name, name[:1].upper() + name[1:] or path.name)
        self.name.setToolTip(plain(str(path)))
        self.setWindowTitle(f"Torch trace · {name or path.name}")
        self.reading.read(path)
        self._show_progress(0.0, 0)
        self._show_state()

    def stop(self) -> None:
        self.reading.stop()
        say(self.name, "")
        self._show_state()

    def _show_progress(self, share: float, entries: int) -> None:
        self.progress.setValue(round(1000 * share))
        what = f"{percent_text(share)} read" if share < 1 else "Read; figures are being worked out"
        say(self.how_far, f"{what} · {entries:,} entries")

    def _show_state(self) -> None:
        page = self.waiting if self.reading.is_busy else self.empty if self.read_trace is None else self.pages
        self.body.setCurrentWidget(page)
        self.open_button.setVisible(page is not self.empty)  # which has a button of its own
        is_torch = self.read_trace is not None and ".pt.trace.json" in self.read_trace.path.name
        self.tensorboard_button.setVisible(page is self.pages and is_torch)

    def _fail(self, told: str) -> None:
        self.messages.post(told)
        if self.read_trace is None:
            say(self.name, "")
        self._show_state()

    def _take(self, read: ReadTrace) -> None:
        self.read_trace = read
        for page in (self.overview, self.memory, self.timeline):
            page.show_trace(read)
        self._show_operators()
        self.kernels.show_records(read.analysis.kernels)
        self._show_state()

    def open_tensorboard(self) -> None:
        """Starts TensorBoard on the folder of the trace, and opens its page. It ends with this window."""
        if self.read_trace is None or self._starting.is_busy:
            return
        self._close_board()
        self.messages.post("TensorBoard is starting; its page opens when it answers.", "info")
        folder, is_closed = self.read_trace.path.parent, self._is_closed
        self._starting.ask(lambda: _started(folder, is_closed))

    def _show_board(self, outcome: TensorBoard | str | None) -> None:
        if isinstance(outcome, str):
            self.messages.post(outcome)
        elif outcome is not None:
            self._board = outcome
            QDesktopServices.openUrl(QUrl(outcome.url))
            self.messages.post(f"TensorBoard is running at {outcome.url}", KEPT)

    def _close_board(self) -> None:
        board, self._board = self._board, None
        if board is not None:
            board.close()

    def _show_operators(self, *_: object) -> None:
        if self.read_trace is not None:
            analysis = self.read_trace.analysis
            rows = analysis.operators
            columns: tuple[Column, ...] = OPERATORS
            if self.operators_by.key == "shapes":
                rows, columns = analysis.operators_by_shapes, OPERATORS_BY_SHAPES
            # Without device work, its columns would be zeros.
            shown = [column for column in columns if analysis.kernels or column not in DEVICE]
            self.operators.show_records(rows, shown)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        self.open_trace(Path(paths[0]))
        event.acceptProposedAction()

    def done(self, result: int) -> None:
        self._is_closed.set()
        self._close_board()
        self.reading.close()
        super().done(result)


def _started(folder: Path, is_closed: threading.Event) -> TensorBoard | str:
    """A running TensorBoard, or the reason why there is none."""
    from evprof.run.tensorboard import open_tensorboard

    try:
        board = open_tensorboard(folder)
    except UserError as error:
        return error.sentence
    if is_closed.is_set():
        board.close()
    return board


def _inset(page: QWidget) -> QWidget:
    ground = QWidget()
    stacked((page, 1), on=ground, margins=(2 * GRID, GRID, 2 * GRID, GRID))
    return ground
