"""Small parts that the side panels share: section heads, wrapped sentences, a switch of words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QButtonGroup, QLabel, QPushButton, QScrollArea, QSizePolicy, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label


def section_head(text: str) -> QLabel:
    return in_role(Label(text.upper()), "head")


def wrapped(text: str, role: str) -> QLabel:
    label = in_role(Label(text), role)
    label.setWordWrap(True)
    return label


def sentence(role: str = "dim") -> QLabel:
    """A wrapped line of text, hidden while empty (see `say`)."""
    label = wrapped("", role)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    label.hide()
    return label


def scrolling(inner: QWidget) -> QScrollArea:
    """A part that scrolls downwards where it is too high, and never sideways."""
    inner.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
    area = _ScrolledPart()
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(inner)
    return area


class _ScrolledPart(QScrollArea):
    """Asks for the height that its part has at its own width, with sentences in it or without."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            self._weigh_height()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._weigh_height()
        super().resizeEvent(event)

    def _weigh_height(self) -> None:
        """With sentences, the least height would be the one at the least width. Without them nobody asks for that at
        the width there is, and the parts would lie upon one another."""
        inner = self.widget()
        layout = None if inner is None else inner.layout()
        if inner is not None and layout is not None:
            height = QSizePolicy.Policy.Ignored if layout.hasHeightForWidth() else QSizePolicy.Policy.Preferred
            inner.setSizePolicy(QSizePolicy.Policy.Preferred, height)


def say(label: QLabel, text: str) -> None:
    """Shows a sentence; an empty one hides the label."""
    if label.text() != text:
        label.setText(text)
    label.setVisible(bool(text))


class ToneLabel(QWidget):
    """A line of text whose role changes: one label per role, of which one is visible.

    A style sheet reads a widget's role once. `style().polish` reads it again, but crashed at times where the
    application's style sheet was exchanged afterwards (PySide6 6.10).
    """

    def __init__(self, *, wraps: bool, alignment: Qt.AlignmentFlag) -> None:
        super().__init__()
        self._wraps = wraps
        self._alignment = alignment
        self._labels: dict[str, Label] = {}
        self._row = beside(on=self)
        self.text = self.role = ""
        """The text, and its role: "dim", "good", "warn" or "bad"."""

    def say(self, text: str, role: str) -> None:
        """Shows a sentence in a role's colour; an empty one hides it."""
        if (text, role) == (self.text, self.role):
            return
        self.text, self.role = text, role
        if role not in self._labels:
            label = self._labels[role] = in_role(Label(), role)
            label.setWordWrap(self._wraps)
            label.setAlignment(self._alignment)
            self._row.addWidget(label)
        for name, label in self._labels.items():
            label.setText(text if name == role else "")
            label.setVisible(name == role and bool(text))


class WordSwitch(QWidget):
    """Exclusive words.

    Signals:
        chosen(str): the key of the word that was chosen.
    """

    chosen = Signal(str)

    def __init__(self, words: Sequence[tuple[str, str]]) -> None:
        """`words` are (key, word) pairs; the first is chosen at the start."""
        super().__init__()
        row = beside(on=self, spacing=GRID // 2)
        self._group = QButtonGroup(self)
        self._keys = [key for key, _ in words]
        for index, (_, word) in enumerate(words):
            button = QPushButton(word)
            button.setCheckable(True)
            button.setChecked(index == 0)
            button.setStyleSheet(
                "QPushButton { padding: 1px 6px; min-height: 16px; background: transparent; border-color: transparent }"
                "QPushButton:checked { background: palette(highlight); }"
            )
            self._group.addButton(button, index)
            row.addWidget(button)
        row.addStretch(1)
        self._group.idClicked.connect(lambda index: self.chosen.emit(self._keys[index]))

    @property
    def key(self) -> str:
        return self._keys[self._group.checkedId()]

    def hold(self, key: str) -> None:
        self._group.button(self._keys.index(key)).setChecked(True)

    def choose(self, key: str) -> None:
        self.hold(key)
        self.chosen.emit(key)


class Disclosure(QWidget):
    """The word opens and closes it, by mouse or by Space; hidden while there is nothing to say."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self.text = ""
        self.button = in_role(QPushButton(), "link")
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.setCheckable(True)
        self.button.toggled.connect(self._show)
        self.label = sentence()
        stacked(beside(self.button, None), self.label, on=self, spacing=GRID // 2)
        self._show()

    def say(self, text: str, word: str = "") -> None:
        """Says something else, behind another word where one is given; an empty text hides it."""
        self.text, self._word = text, word or self._word
        self._show()

    def _show(self, *_: object) -> None:
        is_open = self.button.isChecked()
        self.button.setText(f"{self._word} {'▾' if is_open else '▸'}")
        say(self.label, self.text if is_open else "")
        self.setVisible(bool(self.text))


class EmptyState(QWidget):
    """A heading, one or two sentences, and at most one button.

    With `does` the button triggers the action of that name of the window, or of the window that it was opened from.

    Signals:
        activated(): the button was pressed.
    """

    activated = Signal()

    def __init__(
        self, heading: str, sentence: str, action: str = "", parent: QWidget | None = None, *, does: str = ""
    ) -> None:
        super().__init__(parent)
        self._does = does
        column = stacked(on=self, margins=(0, GRID, 0, GRID), spacing=GRID // 2)
        self._heading, self._sentence = wrapped(heading, "title"), wrapped(sentence, "dim")
        column.addWidget(self._heading)
        column.addWidget(self._sentence)
        if action:
            button = in_role(QPushButton(action), "link")
            button.setCursor(Qt.CursorShape.PointingHandCursor)
            button.clicked.connect(self._act)
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)

    def say(self, heading: str, sentence: str) -> None:
        self._heading.setText(heading)
        say(self._sentence, sentence)

    @property
    def words(self) -> tuple[str, str]:
        return self._heading.text(), self._sentence.text()

    def _act(self) -> None:
        self.activated.emit()
        place: QObject | None = self if self._does else None
        while place is not None:
            action = place.findChild(QAction, self._does, Qt.FindChildOption.FindDirectChildrenOnly)
            if action is not None:
                action.trigger()
                return
            place = place.parent()
