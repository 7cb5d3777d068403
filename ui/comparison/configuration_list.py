"""Which configurations there are to compare, by session, each with a box to tick."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QMenu, QWidget

from ui.comparison.book import OPEN_SESSION, ComparisonBook, ConfigurationPlace, OpenSession
from ui.comparison.sheet import title_parts
from ui.style.theme import ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.line_list.line import ListLine
from ui.widgets.line_list.view import LineList

_SESSION = "session"


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


def _line(session: OpenSession, place: ConfigurationPlace, book: ComparisonBook) -> ListLine:
    column = session.columns[place]
    counted = f"{len(column.runs):,}" if len(column.runs) > 1 else ""
    tip = column.label + (f"\n{column.failures:,} failed rows, left out" if column.failures else "")
    name, below = title_parts(column)
    return ListLine(place, name, counted, second=below, tip=tip, is_checked=place in book.chosen, tells_by_end=True)
