"""The box: a line to type in, and below it what fits, by kind. It lies over the window and takes the keyboard."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget
from shiboken6 import isValid

from ui.palette.sources import Found, Lookup
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.escape import asks_for_escape
from ui.widgets.label import Label
from ui.widgets.line_list.line import ListLine
from ui.widgets.line_list.view import LineList

WIDTH_PX = 560
LINES = 14
FEW = 6
"""Lines of each kind while nothing was typed."""


class PaletteBox(QFrame):
    """Enter or a click does what the marked line says, arrows move the mark, Esc goes back to where one was."""

    def __init__(self, themes: ThemeHolder, window: QWidget, home: QWidget) -> None:
        """`home` gets the keyboard where what had it before is gone, such as a field that closes when it is left."""
        super().__init__(window)
        self._home = home
        self.setProperty("role", "card")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._sources: Sequence[Lookup] = ()
        self._found: list[Found] = []
        self._before: QWidget | None = None
        self.line = QLineEdit()
        self.line.setAccessibleName("Find")
        self.line.textChanged.connect(self._find)
        self.line.installEventFilter(self)
        self.list = LineList(themes, LINES)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.picked.connect(self._act)
        self.nothing = in_role(Label("Nothing is called so."), "dim")
        stacked(self.line, self.list, self.nothing, on=self, margins=(GRID, GRID, GRID, GRID), spacing=GRID)
        self.hide()
        window.installEventFilter(self)

    def ask(self, sources: Sequence[Lookup], hint: str) -> None:
        """Opens, empty, for what these sources can find; opened once more it closes."""
        if self.isVisible() and self.line.placeholderText() == hint:
            self.leave()
            return
        if not self.isVisible():
            self._before = self.window().focusWidget()
        self._sources = sources
        self.line.setPlaceholderText(hint)
        self.line.clear()
        self._find("")
        self._place()
        self.show()
        self.raise_()
        self.line.setFocus(Qt.FocusReason.PopupFocusReason)

    @property
    def titles(self) -> list[str]:
        return [found.title for found in self._found]

    def leave(self) -> None:
        if not self.isVisible():
            return
        self.hide()
        before, self._before = self._before, None
        is_there = before is not None and isValid(before) and before.isVisible()
        (before if is_there and before is not None else self._home).setFocus(Qt.FocusReason.PopupFocusReason)

    def _find(self, query: str) -> None:
        lines: list[ListLine] = []
        self._found = []
        for source in self._sources:
            found = source.find(query.strip())
            for place, one in enumerate(found if query.strip() else found[:FEW]):
                # The kind stands once, beside the first of its lines.
                kind = source.kind if place == 0 else ""
                second = " · ".join(filter(None, (kind, one.second)))
                lines.append(ListLine((len(self._found), one.title), one.title, one.figure, second=second))
                self._found.append(one)
        self.list.show_lines(lines, lines[0].key if lines else None)
        self.list.setVisible(bool(lines))
        self.nothing.setVisible(not lines)
        self._place()

    def _act(self, key: object) -> None:
        if isinstance(key, tuple):
            act = self._found[key[0]].act
            self.leave()
            act()

    def _step(self, by: int) -> None:
        if not self._found:
            return
        lines = self.list.lines
        place = min(max(self.list.currentIndex().row() + by, 0), len(lines) - 1)
        self.list.show_lines(lines, lines[place].key)
        self.list.scrollTo(self.list.currentIndex())

    def _place(self) -> None:
        window = self.parentWidget()
        if window is not None:
            width = min(WIDTH_PX, window.width() - 4 * GRID)
            self.setFixedWidth(width)
            self.adjustSize()
            self.move((window.width() - width) // 2, 7 * GRID)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.line and isinstance(event, QKeyEvent):
            return asks_for_escape(event) or (event.type() == QEvent.Type.KeyPress and self._take_key(event))
        if watched is self.line and event.type() == QEvent.Type.FocusOut and not self.underMouse():
            self.hide()
        if watched is self.parent() and event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)

    def _take_key(self, event: QKeyEvent) -> bool:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: LINES // 2, Qt.Key.Key_PageUp: -LINES // 2}
        key = Qt.Key(event.key())
        if key in steps:
            self._step(steps[key])
        elif key in (Qt.Key.Key_Tab, Qt.Key.Key_Backtab):
            return True  # there is nowhere else to go in it, and it would close
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._act(self.list.current_key)
        elif key == Qt.Key.Key_Escape:
            self.leave()
        else:
            return False
        return True
