"""The comparison window: configurations of this session and of others, side by side against a baseline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
)
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFrame,
    QInputDialog,
    QMenu,
    QPushButton,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.saved_view import ColumnName, SavedView
from evprof.session.facts import VIEWS, saved_views
from ui.comparison.book import (
    FORMATS,
    OPEN_SESSION,
    ComparisonBook,
    ReadSession,
    SessionShelf,
    place_of,
    write_comparison_as,
)
from ui.comparison.parts import ComparisonBar, ComparisonBody, ConfigurationList
from ui.comparison.sheet import ComparisonSheet, sheet
from ui.state.newest_errand import NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.state.window_session import WindowSession
from ui.style.screen_fit import resize_in_room
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.message_bar import FAILURE, INFO, UNDO, MessageBar
from ui.widgets.panel_parts import EmptyState, section_head

LIST_PX = 216
_SESSIONS = "Sessions and results (*.evprof *.json);;All files (*)"


class ComparisonDialog(QDialog):
    """Follows the window's session; others are read once. Does not block the window."""

    def __init__(
        self,
        session: WindowSession,
        controller: RunController,
        selection: Selection,
        themes: ThemeHolder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._controller = controller
        self._selection = selection
        self.book = ComparisonBook()
        self.shelf = SessionShelf(self)
        self.errand = NewestErrand("evprof-comparison-sheet", self)
        self._key: object = None
        self._view: SavedView | None = None
        self.post_late: Callable[[str, str], object] = lambda *_: None
        """Tells what is known only after this window was closed."""

        self._is_over = False
        self.setWindowTitle("Compare")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAcceptDrops(True)
        self.setMinimumSize(720, 480)

        self._make_views(themes)
        resize_in_room(self, 1280, 800)
        self._connect()
        self._follow()

    # Views.

    def _make_views(self, themes: ThemeHolder) -> None:
        self.messages = MessageBar(themes)
        self.bar = ComparisonBar(lambda: list(self.views))
        self.configurations = ConfigurationList(themes)
        self.body = ComparisonBody(themes)
        self.table = self.body.table
        self.empty = EmptyState(
            "Nothing to compare yet",
            "Every configuration of this session, a model in a mode with its settings or a cell of a suite, can be a "
            "column here; one is the baseline that all others are compared with. Tick configurations on the left, or "
            "add another session or a file of results.",
            "Add session…",
        )
        self.empty.activated.connect(self.browse)
        row = beside(self._left(), in_role(QFrame(), "vrule"), (self._right(), 1), spacing=0)
        stacked(self.bar, self.messages, (row, 1), on=self, spacing=0)

    def _left(self) -> QWidget:
        side = in_role(QFrame(), "panel")
        side.setFixedWidth(LIST_PX)
        head = section_head("Configurations")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        self.add = in_role(QPushButton("Add session…"), "link")
        self.add.setToolTip("Compare with another session, or with results of other programs (.json, .jsonl)")
        self.add.setContentsMargins(2 * GRID, 0, 0, 0)
        self.add.clicked.connect(self.browse)
        foot = beside(self.add, None, margins=(2 * GRID, 0, 2 * GRID, 0))
        stacked(head, (self.configurations, 1), foot, on=side, margins=(0, GRID, 0, GRID), spacing=GRID // 2)
        return side

    def _right(self) -> QWidget:
        right = in_role(QFrame(), "panel")
        self.empty.setContentsMargins(4 * GRID, 4 * GRID, 4 * GRID, 0)
        stacked(self.empty, (self.body, 1), on=right, margins=(0, 0, 0, GRID), spacing=0)
        return right

    def _connect(self) -> None:
        self.bar.basis_chosen.connect(self._take_basis)
        self.bar.differences_toggled.connect(self._take_differences)
        self.bar.view_opened.connect(self.open_view)
        self.bar.view_removed.connect(self.remove_view)
        self.bar.save_asked.connect(self._ask_name)
        self.bar.copy_asked.connect(self.copy)
        self.bar.export_asked.connect(self._ask_place)
        self.configurations.toggled.connect(self._toggle)
        self.configurations.removed.connect(self._close_session)
        self.table.baseline_chosen.connect(self._choose_baseline)
        self.table.moved.connect(self._move)
        self.table.removed.connect(self._remove)
        self.table.menu_asked.connect(self._offer)
        self.errand.done.connect(self._show)
        self.shelf.came.connect(self._take_session)
        self.shelf.failed.connect(self._take_failure)
        self._controller.figures_due.connect(self._follow)
        self._controller.session_replaced.connect(self._start_over)

    # What is compared.

    def _start_over(self) -> None:
        """The window shows another session: nothing of the old one is left."""
        self.book.close_session(OPEN_SESSION)
        self._view = None
        self.messages.clear()
        self._follow()

    def _follow(self) -> None:
        runs = self._controller.runs
        self.book.show_session(OPEN_SESSION, self._session.title, tuple(runs.values()))
        shown = (self._controller.run(run_id) for run_id in self._selection.runs)
        chosen = [run for run in shown if run is not None]
        self.book.choose_first(chosen)
        self._fill()

    def _fill(self) -> None:
        """Shows the choice as it is now; figures over many runs follow when they are worked out."""
        self.configurations.show_book(self.book)
        listed, baseline = self.book.configurations, self.book.baseline_index
        self.body.setVisible(bool(listed))
        self.empty.setVisible(not listed)
        self.bar.set_has_columns(bool(listed))
        key = (tuple(map(_identity, listed)), baseline, self.book.basis, self.book.differences_only)
        if key == self._key:
            return
        self._key = key
        if not listed:
            self.errand.forget()
            self._show(ComparisonSheet())
            return
        basis, sessions, only = self.book.basis, dict(self.book.sessions), self.book.differences_only
        self.errand.ask(lambda: sheet(listed, baseline, basis, sessions, differences_only=only))

    def _show(self, found: object) -> None:
        if isinstance(found, ComparisonSheet):
            self.body.show_sheet(found)

    def _take_basis(self, basis: str) -> None:
        self.book.basis = basis
        self._fill()

    def _take_differences(self, is_on: bool) -> None:
        self.book.differences_only = is_on
        self._fill()

    def _toggle(self, place: object) -> None:
        if isinstance(place, ColumnName):
            self.book.toggle(place)
            self._fill()

    def _place(self, index: int) -> ColumnName:
        return place_of(self.book.configurations[index])

    def _choose_baseline(self, index: int) -> None:
        self.book.choose_baseline(self._place(index))
        self._fill()

    def _move(self, index: int, to: int) -> None:
        self.book.move(self._place(index), to - index)
        self._fill()

    def _remove(self, index: int) -> None:
        self._toggle(self._place(index))

    def _offer(self, index: int, at: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        last = len(self.book.configurations) - 1
        for text, work, is_possible in (
            ("Make this the baseline  Enter", partial(self._choose_baseline, index), True),
            ("Move left  Ctrl+←", partial(self._move, index, index - 1), index > 0),
            ("Move right  Ctrl+→", partial(self._move, index, index + 1), index < last),
            ("Remove  Del", partial(self._remove, index), True),
        ):
            action = menu.addAction(text)
            action.setEnabled(is_possible)
            action.triggered.connect(lambda _=False, work=work: work())
        menu.popup(at)

    # Other sessions.

    def browse(self) -> None:
        """Asks for sessions or result files to compare with."""
        folder = str(self._session.path.parent) if self._session.path is not None else ""
        paths, _ = QFileDialog.getOpenFileNames(self, "Add sessions", folder, _SESSIONS)
        self.add_sessions([Path(path) for path in paths])

    def add_sessions(self, paths: Sequence[Path]) -> None:
        """Reads sessions or result files beside the open one, in the background."""
        for path in paths:
            full = path.resolve()
            if full == (self._session.path.resolve() if self._session.path is not None else None):
                self.messages.post(f"{path.name} is the open session; its configurations are listed already.", "info")
            elif str(full) not in self.book.sessions:
                self.shelf.read(full)

    def _take_session(self, read: object) -> None:
        if not isinstance(read, ReadSession):
            return
        self.book.show_session(read.path, read.title, read.runs)
        if not self.book.sessions[read.path].columns:
            self.messages.post(f"{read.title} holds no finished run that can be compared.", "warn")
        self._show_view()
        self._fill()

    def _take_failure(self, told: str) -> None:
        self.messages.post(told)
        self._show_view()
        self._fill()

    def _close_session(self, path: object) -> None:
        self.book.close_session(str(path))
        self._fill()

    # Saved views.

    @property
    def views(self) -> dict[str, Any]:
        """The saved views of the session by name."""
        return saved_views(self._session.facts)

    def _keep_view(self, name: str, view: Any) -> None:
        self._session.note(VIEWS, {**self.views, name: view})

    def _ask_name(self) -> None:
        name, is_given = QInputDialog.getText(self, "Save view", "Name of this comparison:")
        if is_given and name.strip():
            self.save_view(name.strip())

    def save_view(self, name: str) -> None:
        """Keeps the choice in the open session under a name, in place of one of that name, which can be undone."""
        before = self.views.get(name)
        self._keep_view(name, self.book.to_view().to_json())
        if before is None:
            self.messages.post(f"Saved in the session as “{name}”.", INFO, about=name)
        else:
            self._offer_undo(f"“{name}” was replaced in the session.", name, before)

    def remove_view(self, name: str) -> None:
        """Forgets a saved view, which can be undone."""
        view = self.views[name]
        self._session.note(VIEWS, {other: known for other, known in self.views.items() if other != name})
        self._offer_undo(f"“{name}” was removed.", name, view)

    def _offer_undo(self, sentence: str, name: str, before: Any) -> None:
        self.messages.post(sentence, INFO, UNDO, partial(self._keep_view, name, before), about=name)

    def open_view(self, name: str) -> None:
        """Shows a saved view; the other sessions that it needs are read first."""
        try:
            self._view = SavedView.from_json(self.views[name], name)
        except UserError as error:
            self.messages.post(error.sentence)
            return
        self.add_sessions([Path(path) for path in self._view.sessions if path != OPEN_SESSION])
        self._show_view()
        self._fill()

    def _show_view(self) -> None:
        view = self._view
        if view is None or (any(path not in self.book.sessions for path in view.sessions) and self.shelf.is_busy):
            return
        self._view = None
        missing = self.book.show_view(view)
        if missing:
            is_or_are = "is" if missing == 1 else "are"
            self.messages.post(f"{missing} of its configurations {is_or_are} no longer in these sessions.", "warn")
        self.bar.show_choice(self.book.basis, differences_only=self.book.differences_only)

    # Copying and writing.

    def copy(self) -> None:
        """Puts the table into the clipboard as tab-separated text."""
        QGuiApplication.clipboard().setText(self.table.sheet.as_text())
        self.messages.post("Copied as tab-separated text.", "info")

    def _ask_place(self, key: str) -> None:
        text, pattern = FORMATS[key]
        start = str(Path.home() / f"comparison.{'csv' if key == 'csv' else 'json'}")
        path, _ = QFileDialog.getSaveFileName(self, text.rstrip("…"), start, pattern)
        if path:
            self.write(key, Path(path))

    def write(self, key: str, path: Path) -> None:
        """Writes the comparison ("csv", "json") in the background."""
        book = self.book
        listed, baseline, basis, only = book.configurations, book.baseline_index, book.basis, book.differences_only
        if len(listed) < 2:
            self.messages.post("A comparison needs at least two configurations; tick another one.", "warn")
            return

        def work() -> str:
            document = compare_document(listed, listed[baseline], basis, differences_only=only)
            return write_comparison_as(key, path, document)

        def tell(kind: str, told: str) -> None:
            (self.post_late if self._is_over else self.messages.post)(told, kind)

        self._session.in_background(work, partial(tell, INFO), partial(tell, FAILURE))

    # Qt's own.

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+C copies wherever one is."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.Save):
            self._ask_name()
        else:
            super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files are welcome."""
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Adds sessions that were dropped."""
        self.add_sessions([Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()])
        event.acceptProposedAction()

    def done(self, result: int) -> None:
        """Threads end before what they answer to goes away; both Esc and the window's button come by here."""
        self.settle()
        self._is_over = True
        super().done(result)

    def settle(self) -> None:
        """Waits for threads."""
        self.errand.wait()
        self.shelf.wait()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being read or worked out."""
        return not (self.errand.is_busy or self.shelf.is_busy)


def _identity(column: object) -> int:
    """Tells configurations apart; they are gathered anew whenever runs end."""
    return id(column)
