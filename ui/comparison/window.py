"""The comparison window: configurations of this session and of others, side by side against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QCheckBox, QFileDialog, QFrame, QMenu, QPushButton, QToolButton, QWidget

from evprof.core.units import count_text
from evprof.export.comparison_tables import write_comparison
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.figures.stages import BASES
from ui.comparison.book import OPEN_SESSION, ColumnKey, ComparisonBook, OpenSession, key_of, read_any
from ui.comparison.sheet import ComparisonSheet, sheet, title_parts
from ui.comparison.table import SIGNS, ComparisonTable
from ui.run_facts.figures import BASIS_NAMES
from ui.state.newest_errand import NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.style.screen_fit import resize_in_room
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.message_bar import FAILURE, INFO, MessageBar
from ui.widgets.panel_parts import EmptyState, WordSwitch, say, section_head, sentence
from ui.widgets.text_dialogs import FreeDialog

LIST_PX = 216
_SESSIONS = "Sessions and results (*.evprof *.json);;All files (*)"


class ComparisonDialog(FreeDialog):
    """Follows the window's session; other sessions are read once."""

    def __init__(
        self,
        session: WindowSession,
        controller: RunController,
        selection: Selection,
        themes: ThemeHolder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Compare", parent)
        self._session = session
        self._controller = controller
        self._selection = selection
        self.book = ComparisonBook()
        self.errand = NewestErrand("evprof-comparison-sheet", self)
        self.errand.done.connect(self._show)
        self._reading: set[str] = set()
        self._key: object = None
        self.post_late: Callable[[str, str], object] = lambda *_: None
        """Shows a message after this window was closed."""

        self._is_over = False
        self.setAcceptDrops(True)
        self.setMinimumSize(720, 480)
        self._make_views(themes)
        resize_in_room(self, 1280, 800)
        controller.figures_due.connect(self._follow)
        controller.session_replaced.connect(self._start_over)
        self._follow()

    def _make_views(self, themes: ThemeHolder) -> None:
        self.messages = MessageBar(themes)
        row = beside(self._left(themes), in_role(QFrame(), "vrule"), (self._right(themes), 1), spacing=0)
        stacked(self._bar(), self.messages, (row, 1), on=self, spacing=0)

    def _bar(self) -> QWidget:
        self.basis = WordSwitch([(basis, BASIS_NAMES[basis]) for basis in BASES])
        self.basis.setToolTip("What totals and the time to the first token count")
        self.basis.chosen.connect(self._choose_basis)
        self.differences_only = QCheckBox("Differences only")
        self.differences_only.setToolTip("Hide figures in which no configuration differs from the baseline")
        self.differences_only.toggled.connect(self._choose_differences)
        self.export = QToolButton()
        self.export.setText("Export")
        self.export.setFixedHeight(BUTTON_PX)
        self.export.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.export)
        self.export.setMenu(menu)
        # The window handles the shortcut; the menu only shows it.
        menu.addAction(f"Copy as text\t{QKeySequence(QKeySequence.StandardKey.Copy).toString()}", self.copy)
        menu.addAction("CSV table…", partial(self._ask_place, ".csv"))
        menu.addAction("JSON…", partial(self._ask_place, ".json"))
        bar = QWidget()
        parts = (self.basis, self.differences_only, None, self.export)
        beside(*parts, on=bar, margins=(2 * GRID, GRID, 2 * GRID, GRID), spacing=GRID)
        return bar

    def _left(self, themes: ThemeHolder) -> QWidget:
        self.list = LineList(themes)
        self.list.setAccessibleName("Configurations to compare")
        self.list.ticked.connect(self.toggle)
        self.list.menu_asked.connect(self._offer_session)
        side = in_role(QFrame(), "panel")
        side.setFixedWidth(LIST_PX)
        head = section_head("Configurations")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        add = in_role(QPushButton("Add session…"), "link")
        add.setToolTip("Compare with another session, or with results of other programs (.json, .jsonl)")
        add.clicked.connect(self.browse)
        foot = beside(add, None, margins=(2 * GRID, 0, 2 * GRID, 0))
        stacked(head, (self.list, 1), foot, on=side, margins=(0, GRID, 0, GRID), spacing=GRID // 2)
        return side

    def _right(self, themes: ThemeHolder) -> QWidget:
        self.empty = EmptyState(
            "Nothing to compare yet",
            "Every configuration of this session, a model in a mode with its settings or a cell of a suite, can be a "
            "column here; one is the baseline that all others are compared with. Tick configurations on the left, or "
            "add another session or a file of results.",
            "Add session…",
        )
        self.empty.activated.connect(self.browse)
        self.empty.setContentsMargins(4 * GRID, 4 * GRID, 4 * GRID, 0)
        self.table = in_role(ComparisonTable(themes), "sheet")
        self.table.baseline_chosen.connect(self._choose_baseline)
        self.table.removed.connect(self._remove)
        self.table.menu_asked.connect(self._offer_column)
        self.why, self.differences = sentence(""), sentence("warn")
        self.signs, self.notes = sentence("small"), sentence("small")
        for label in (self.why, self.differences, self.signs, self.notes):
            label.setContentsMargins(GRID + 2, GRID // 2, GRID, 0)
        right = in_role(QFrame(), "panel")
        parts = (self.empty, self.differences, self.why, (self.table, 1), self.signs, self.notes)
        stacked(*parts, on=right, margins=(0, 0, 0, GRID), spacing=GRID // 2)
        return right

    def _start_over(self) -> None:
        """The window shows another session: nothing of the old one is left."""
        self.book.close_session(OPEN_SESSION)
        self.messages.clear()
        self._follow()

    def _follow(self) -> None:
        self.book.show_session(OPEN_SESSION, self._session.title, tuple(self._controller.runs.values()))
        shown = (self._controller.run(run_id) for run_id in self._selection.runs)
        self.book.choose_first([run for run in shown if run is not None])
        self._fill()

    def _fill(self) -> None:
        """Shows the list now; the figures follow from a thread."""
        book = self.book
        lines = [line for session in book.sessions.values() for line in _lines(session, book.chosen)]
        self.list.show_lines(lines, self.list.current_key)
        listed, baseline, basis, only = book.configurations, book.baseline_index, book.basis, book.differences_only
        self.empty.setVisible(not listed)
        self.table.setVisible(bool(listed))
        self.export.setEnabled(bool(listed))
        # Configurations are gathered again whenever runs end.
        key = (tuple(map(id, listed)), baseline, basis, only)
        if key == self._key:
            return
        self._key = key
        if listed:
            sessions = dict(book.sessions)
            say(self.notes, "Computing the comparison …")
            self.errand.ask(lambda: sheet(listed, baseline, basis, sessions, differences_only=only))
        else:
            self.errand.forget()
            self._show(ComparisonSheet())

    def _show(self, result: object) -> None:
        if isinstance(result, ComparisonSheet):
            self.table.show_sheet(result)
            hidden = f"Hidden, without a difference: {count_text(result.hidden, 'figure')}." if result.hidden else ""
            say(self.why, "\n".join(result.why))
            say(self.differences, result.differences)
            say(self.signs, " ".join(filter(None, (hidden, SIGNS if len(result.heads) > 1 else ""))))
            say(self.notes, " ".join(result.notes))

    def _choose_basis(self, basis: str) -> None:
        self.book.basis = basis
        self._fill()

    def _choose_differences(self, is_on: bool) -> None:
        self.book.differences_only = is_on
        self._fill()

    def toggle(self, key: ColumnKey) -> None:
        self.book.toggle(key)
        self._fill()

    def _choose_baseline(self, index: int) -> None:
        self.book.baseline = key_of(self.book.configurations[index])
        self._fill()

    def _remove(self, index: int) -> None:
        self.toggle(key_of(self.book.configurations[index]))

    def _offer_column(self, index: int, at: QPoint) -> None:
        actions = {"Make this the baseline\tEnter": self._choose_baseline, "Remove\tDel": self._remove}
        self._menu({text: partial(work, index) for text, work in actions.items()}, at)

    def _offer_session(self, key: object, at: QPoint) -> None:
        if isinstance(key, str) and key != OPEN_SESSION:
            self._menu({"Close this session": partial(self.close_session, key)}, at)

    def _menu(self, actions: dict[str, Callable[[], object]], at: QPoint) -> None:
        menu = ChoiceMenu(self)
        for text, work in actions.items():
            menu.addAction(text, work)
        menu.popup(at)

    def browse(self) -> None:
        folder = str(self._session.path.parent) if self._session.path is not None else ""
        paths, _ = QFileDialog.getOpenFileNames(self, "Add sessions", folder, _SESSIONS)
        self.add_sessions([Path(path) for path in paths])

    def add_sessions(self, paths: Sequence[Path]) -> None:
        """Reads sessions or result files beside the open one, in the background."""
        for path in map(Path.resolve, paths):
            if self._session.path is not None and path == self._session.path.resolve():
                self.messages.post(f"{path.name} is the open session; its configurations are listed already.", INFO)
            elif str(path) not in self.book.sessions and str(path) not in self._reading:
                self._reading.add(str(path))
                failed = partial(self._show_failure, str(path))
                self._session.in_background(partial(read_any, path), self._show_session, failed)

    def _show_session(self, read: OpenSession) -> None:
        self._reading.discard(read.path)
        if not self._is_over:
            self.book.show_session(read.path, read.title, read.runs)
            if not self.book.sessions[read.path].columns:
                self.messages.post(f"{read.title} holds no finished run that can be compared.", "warn")
            self._fill()

    def _show_failure(self, path: str, sentence: str) -> None:
        self._reading.discard(path)
        if not self._is_over:
            self.messages.post(sentence)

    def close_session(self, path: str) -> None:
        self.book.close_session(path)
        self._fill()

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.table.sheet.as_text())
        self.messages.post("Copied as tab-separated text.", INFO)

    def _ask_place(self, suffix: str) -> None:
        start, pattern = str(Path.home() / f"comparison{suffix}"), f"*{suffix}"
        path, _ = QFileDialog.getSaveFileName(self, "Export the comparison", start, pattern)
        if path:
            self.write(Path(path if path.lower().endswith(suffix) else path + suffix))

    def write(self, path: Path) -> None:
        """Writes the comparison as CSV or JSON, by the suffix, in the background."""
        book = self.book
        listed, baseline, basis, only = book.configurations, book.baseline_index, book.basis, book.differences_only
        if len(listed) < 2:
            self.messages.post("A comparison needs at least two configurations; tick another one.", "warn")
            return

        def work() -> str:
            write_comparison(compare_document(listed, listed[baseline], basis, differences_only=only), path)
            return f"Written: {path}"

        def post(kind: str, text: str) -> None:
            (self.post_late if self._is_over else self.messages.post)(text, kind)

        self._session.in_background(work, partial(post, INFO), partial(post, FAILURE))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.add_sessions([Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()])
        event.acceptProposedAction()

    def done(self, result: int) -> None:
        """Waits for the thread of the figures; Esc and the window's button end here."""
        self.errand.wait()
        self._is_over = True
        super().done(result)

    @property
    def is_idle(self) -> bool:
        return not (self.errand.is_busy or self._reading)


def _lines(session: OpenSession, chosen: Sequence[ColumnKey]) -> list[ListLine]:
    """A line for the session, and a line with a box for each of its configurations."""
    lines = [ListLine(session.path, session.title, tip=session.path or "The session in the window", tells_by_end=True)]
    for key, column in session.columns.items():
        name, second = title_parts(column)
        count = f"{len(column.runs):,}" if len(column.runs) > 1 else ""
        line = ListLine(key, name, count, second=second, tip=column.label, is_inner=True, tells_by_end=True)
        lines.append(replace(line, is_checked=key in chosen))
    return lines
