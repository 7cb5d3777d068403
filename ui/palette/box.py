"""The palette: a line to type in, what it finds, and where it looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget
from shiboken6 import isValid

from evprof.core.vocabulary.setting import Setting
from evprof.view.labels import match
from ui.run_facts.run_text import run_title
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.drawn import asks_for_escape
from ui.widgets.label import Label
from ui.widgets.line_list import LineList, ListLine

if TYPE_CHECKING:
    from ui.state.run_controller import RunController


WIDTH_PX = 560
LINES = 14
FEW = 6
"""Lines of each kind while nothing was typed."""

MOST = 40
"""Lines of one kind; what somebody looks for further down is found sooner by another word."""


@dataclass(frozen=True)
class Found:
    """One line: what it is called, a figure or keys at its right, what is said below it, and what choosing it does."""

    title: str
    act: Callable[[], object]
    figure: str = ""
    second: str = ""


@dataclass(frozen=True)
class Lookup:
    """A kind of things that can be found. `find` hears what was typed and gives the best first, at most MOST."""

    kind: str
    find: Callable[[str], list[Found]]


def best(query: str, things: Iterable[Found]) -> list[Found]:
    """The things whose title or second line fits, best first; of equals, the one given first."""
    scored = ((match(query, f"{thing.title} {thing.second}"), thing) for thing in things)
    fitting = [(score, thing) for score, thing in scored if score is not None]
    return [thing for _, thing in sorted(fitting, key=lambda one: -one[0])[:MOST]]


def settings_source(controls: Mapping[str, Setting], open_setting: Callable[[str], object]) -> Lookup:
    """Everything in the settings popover; choosing one opens it there."""

    def things() -> Iterator[Found]:
        for key, control in controls.items():
            yield Found(control.name, partial(open_setting, key), control.head, control.tip)

    return Lookup("Settings", lambda query: best(query, things()))


def runs_source(controller: RunController, show_run: Callable[[int], object]) -> Lookup:
    """The session's runs, the newest first; choosing one shows it."""

    def things() -> Iterator[Found]:
        for run in reversed(list(controller.runs.values())):
            yield Found(run_title(run), partial(show_run, run.run_id), run.info.status, run.info.sample.whole_name)

    return Lookup("Runs", lambda query: best(query, things()))


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
        self.nothing = in_role(Label("Nothing found."), "dim")
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
