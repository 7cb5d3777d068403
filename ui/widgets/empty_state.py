"""What a panel says while it has nothing to show: what it shows, what fills it, and one button for that."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from ui.style.theme import GRID
from ui.widgets.boxes import in_role, stacked
from ui.widgets.label import Label


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
        self._heading, self._sentence = _label(heading, "title"), _label(sentence, "dim")
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
        self._sentence.setText(sentence)

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


def _label(text: str, role: str) -> QLabel:
    label = in_role(Label(text), role)
    label.setWordWrap(True)
    return label
