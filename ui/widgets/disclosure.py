"""A sentence that is folded away behind a word, for whoever wants to know."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.panel_parts import say, sentence


class Disclosure(QWidget):
    """The word opens and closes it, by mouse or by Space; hidden while there is nothing to say."""

    def __init__(self, word: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._word = word
        self._text = ""
        self.button = in_role(QPushButton(), "link")
        self.button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.setCheckable(True)
        self.button.toggled.connect(self._show)
        self.label = sentence()
        stacked(beside(self.button, None), self.label, on=self, spacing=GRID // 2)
        self._show()

    @property
    def text(self) -> str:
        return self._text

    def say(self, text: str, word: str = "") -> None:
        """Says something else, behind another word where one is given; an empty text hides it."""
        self._text, self._word = text, word or self._word
        self._show()

    def _show(self, *_: object) -> None:
        is_open = self.button.isChecked()
        self.button.setText(f"{self._word} {'▾' if is_open else '▸'}")
        say(self.label, self._text if is_open else "")
        self.setVisible(bool(self._text))
