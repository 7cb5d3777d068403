"""Parts of the comparison window: the bar on top, the list of configurations, and the table with its notes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QCheckBox, QMenu, QPushButton, QToolButton, QWidget

from evprof.core.units import count_text
from evprof.metrics.configurations.saved_view import ColumnName
from evprof.metrics.figures.stages import BASES
from ui.comparison.book import FORMATS, OPEN_SESSION, ComparisonBook, OpenSession
from ui.comparison.sheet import ComparisonSheet, title_parts
from ui.comparison.table import SIGNS, ComparisonTable
from ui.run_facts.figures import BASIS_NAMES
from ui.style.theme import BUTTON_PX, GRID, ThemeHolder
from ui.widgets.boxes import beside, stacked
from ui.widgets.label import literal
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import WordSwitch, say, sentence

_SESSION = "session"


class ComparisonBar(QWidget):
    """Knows what can be asked for, and nothing of what is shown.

    Signals:
        basis_chosen(str): one of `evprof.metrics.figures.stages.BASES`.
        differences_toggled(bool): whether figures without a difference are left out.
        view_opened(str), view_removed(str): the name of a saved view.
        save_asked(): this choice is to be saved as a view.
        copy_asked(): the table is wanted in the clipboard.
        export_asked(str): a key of `ui.comparison.export.FORMATS`.
    """

    basis_chosen = Signal(str)
    differences_toggled = Signal(bool)
    view_opened = Signal(str)
    view_removed = Signal(str)
    save_asked = Signal()
    copy_asked = Signal()
    export_asked = Signal(str)

    def __init__(self, view_names: Callable[[], list[str]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view_names = view_names
        self.basis = WordSwitch([(basis, BASIS_NAMES[basis]) for basis in BASES])
        self.basis.setToolTip("What totals and the time to the first token count")
        self.basis.chosen.connect(self.basis_chosen)
        self.differences = QCheckBox("Differences only")
        self.differences.setToolTip("Hide figures in which no configuration differs from the baseline")
        self.differences.toggled.connect(self.differences_toggled)
        self.views = _menu_button("Views", "Comparisons saved in this session")
        self.views.menu().aboutToShow.connect(self._list_views)
        self.save = QPushButton("Save view…")
        self.save.setToolTip("Keep this choice of columns in the session (Ctrl+S)")
        self.save.clicked.connect(self.save_asked)
        self.export = _menu_button("Export", "Copy or write this comparison")
        self._fill_export()
        parts = (self.basis, self.differences, None, self.views, self.save, self.export)
        beside(*parts, on=self, margins=(2 * GRID, GRID, 2 * GRID, GRID), spacing=GRID)

    def _fill_export(self) -> None:
        menu = self.export.menu()
        copy = menu.addAction("Copy as text")
        # Shown, not bound: the window itself listens for it.
        copy.setText(f"Copy as text\t{QKeySequence(QKeySequence.StandardKey.Copy).toString()}")
        copy.triggered.connect(self.copy_asked)
        for key, (text, _) in FORMATS.items():
            menu.addAction(text).setData(key)
        menu.triggered.connect(lambda action: self.export_asked.emit(action.data()) if action.data() else None)

    def show_choice(self, basis: str, *, differences_only: bool) -> None:
        """Shows what is in force, as a saved view brought it."""
        if self.basis.key != basis:
            self.basis.choose(basis)
        self.differences.setChecked(differences_only)

    def set_has_columns(self, has_columns: bool) -> None:
        """Whether there is anything to save and to write."""
        self.export.setEnabled(has_columns)
        self.save.setEnabled(has_columns)

    def _list_views(self) -> None:
        menu = self.views.menu()
        menu.clear()
        names = self._view_names()
        for name in names:
            menu.addAction(literal(name)).triggered.connect(lambda _=False, name=name: self.view_opened.emit(name))
        if not names:
            menu.addAction("None saved in this session yet").setEnabled(False)
        menu.addSeparator()
        saving = menu.addAction("Save view…")
        saving.setEnabled(self.save.isEnabled())
        saving.triggered.connect(self.save_asked)
        removal = menu.addMenu("Remove")
        removal.setEnabled(bool(names))
        for name in names:
            removal.addAction(literal(name)).triggered.connect(lambda _=False, name=name: self.view_removed.emit(name))


def _menu_button(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setText(text)
    button.setFixedHeight(BUTTON_PX)
    button.setToolTip(tip)
    button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
    button.setMenu(QMenu(button))
    return button


class ConfigurationList(QWidget):
    """Sessions that open to their configurations.

    Signals:
        toggled(object): the Place of a configuration that was ticked or unticked.
        removed(object): the path of a session to close.
    """

    toggled = Signal(object)
    removed = Signal(object)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._book = ComparisonBook()
        self._closed: set[str] = set()
        self.list = LineList(themes)
        self.list.setAccessibleName("Configurations to compare")
        stacked(self.list, on=self)
        self.list.ticked.connect(self.toggled)
        self.list.fold_asked.connect(self._fold)
        self.list.menu_asked.connect(self._offer)

    def show_book(self, book: ComparisonBook) -> None:
        """Shows what there is and what of it is chosen."""
        self._book = book
        lines: list[ListLine] = []
        for path, session in book.sessions.items():
            is_open = path not in self._closed
            lines.append(_session_line(session, is_open=is_open))
            if is_open:
                lines += [_line(session, place, book) for place in session.columns]
        self.list.show_lines(lines, self.list.current_key)

    def _fold(self, key: object, opens: bool) -> None:
        if isinstance(key, tuple):
            (self._closed.discard if opens else self._closed.add)(str(key[1]))
            self.show_book(self._book)

    def _offer(self, key: object, at: QPoint) -> None:
        path = str(key[1]) if isinstance(key, tuple) and key[0] == _SESSION else OPEN_SESSION
        if path == OPEN_SESSION:
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Put this session away", lambda: self.removed.emit(path))
        menu.popup(at)


def _session_line(session: OpenSession, *, is_open: bool) -> ListLine:
    count = len(session.columns)
    return ListLine(
        (_SESSION, session.path),
        session.title,
        str(count) if count else "",
        tip=session.path or f"{session.title}: the session in the window",
        fold="open" if is_open else "closed",
        tells_by_end=True,
    )


def _line(session: OpenSession, place: ColumnName, book: ComparisonBook) -> ListLine:
    column = session.columns[place]
    counted = f"{len(column.runs):,}" if len(column.runs) > 1 else ""
    tip = column.label + (f"\n{column.failures:,} failed rows, left out" if column.failures else "")
    name, below = title_parts(column)
    return ListLine(place, name, counted, second=below, tip=tip, is_checked=place in book.chosen, tells_by_end=True)


class ComparisonBody(QWidget):
    """The table, and below it the notes."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = ComparisonTable(themes)
        self.differences = sentence("warn")
        self.signs = sentence("small")
        self.notes = sentence("small")
        for label in (self.differences, self.signs, self.notes):
            label.setContentsMargins(GRID + 2, GRID // 2, GRID, 0)
        stacked(self.differences, (self.table, 1), self.signs, self.notes, on=self, spacing=GRID // 2)

    def show_sheet(self, sheet: ComparisonSheet) -> None:
        """Shows a comparison."""
        say(self.differences, sheet.differences)
        self.table.show_sheet(sheet)
        hidden = f"Hidden, without a difference: {count_text(sheet.hidden, 'figure')}." if sheet.hidden else ""
        say(self.signs, " ".join(filter(None, (hidden, SIGNS if len(sheet.heads) > 1 else ""))))
        say(self.notes, " ".join(sheet.notes))
