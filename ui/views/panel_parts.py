"""Small parts that the side panels share: section heads, wrapped sentences, a switch of words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget

from ui.theme import GRID


def section_head(text: str) -> QLabel:
    """An upper-case head."""
    label = QLabel(text.upper())
    label.setProperty("role", "head")
    return label


def sentence(role: str = "dim") -> QLabel:
    """A wrapped line of text, hidden while empty (see `say`)."""
    label = QLabel()
    label.setProperty("role", role)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    label.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
    label.hide()
    return label


def say(label: QLabel, text: str, role: str | None = None) -> None:
    """Shows a sentence, in another judgement's colour if need be; an empty one hides the label."""
    if role is not None and label.property("role") != role:
        label.setProperty("role", role)
        label.style().unpolish(label)
        label.style().polish(label)
    if label.text() != text:
        label.setText(text)
    label.setVisible(bool(text))


class WordSwitch(QWidget):
    """Some words of which one holds.

    Signals:
        chosen(str): the key of the word that holds now.
    """

    chosen = Signal(str)

    def __init__(self, words: Sequence[tuple[str, str]], parent: QWidget | None = None) -> None:
        """`words` are (key, word) pairs; the first holds at the start."""
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID // 2)
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
        self._group.idClicked.connect(self._tell)

    @property
    def key(self) -> str:
        """The key of the word that holds."""
        return self._keys[self._group.checkedId()]

    def choose(self, key: str) -> None:
        """Makes a word hold, as if it had been clicked."""
        index = self._keys.index(key)
        self._group.button(index).setChecked(True)
        self._tell(index)

    def _tell(self, index: int) -> None:
        self.chosen.emit(self._keys[index])
