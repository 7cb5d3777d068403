"""Messages that don't block: one line at a time over the views, the next when it is dismissed or has been read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QToolButton, QWidget

from ui.style.icons import SIZE, icon, pixmap
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role
from ui.widgets.drawn import asks_for_escape, is_escape
from ui.widgets.label import Label

READING_MS = 8000
"""How long information stays; everything else stays until it is dismissed."""

FAILURE, WARNING, INFO, KEPT = "bad", "warn", "info", "kept"
"""Kinds of notices. KEPT is information that somebody may still need in an hour, such as an address."""

UNDO = "Undo"
"""What notices offer that are about the session on show."""

_ICONS = {FAILURE: "warning", WARNING: "warning", INFO: "info", KEPT: "info"}


@dataclass(frozen=True)
class Notice:
    """One sentence, its kind and at most one thing to do about it."""

    sentence: str
    kind: str = FAILURE
    action: str = ""
    on_action: Callable[[], None] | None = None
    about: str = ""


class MessageBar(QFrame):
    """The bar; hidden while there is nothing to say. The same sentence is not queued twice."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._waiting: deque[Notice] = deque()
        self.shown: Notice | None = None
        """The notice on display."""

        self._ground: QWidget | None = None
        self._sign = Label()
        self._text = Label()
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._more = in_role(Label(), "small")
        self._action = in_role(QPushButton(), "link")
        self._action.clicked.connect(self.act)
        self._dismiss = in_role(QToolButton(), "quiet")
        self._dismiss.setIconSize(QSize(SIZE, SIZE))
        self._dismiss.setToolTip("Dismiss (Esc)")
        self._dismiss.setAccessibleName("Dismiss")
        self._dismiss.clicked.connect(self.dismiss)
        parts = (self._sign, self._text, self._more, self._action, self._dismiss)
        beside(*parts, on=self, margins=(2 * GRID, GRID // 2, GRID, GRID // 2), spacing=GRID)
        self._reading = QTimer(self)
        self._reading.setSingleShot(True)
        self._reading.timeout.connect(self.dismiss)
        themes.changed.connect(self._restyle)
        self.hide()

    def float_over(self, ground: QWidget) -> None:
        """Lies over the foot of `ground`, as its sibling, so that a raised panel does not cover it."""
        self._ground = ground
        self.setParent(ground if ground.isWindow() else ground.parentWidget())
        ground.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._ground and event.type() in (QEvent.Type.Resize, QEvent.Type.Move):
            self._place()
        if watched is not self.window() or self.isHidden():
            return super().eventFilter(watched, event)
        if event.type() == QEvent.Type.KeyPress and is_escape(event):
            self.dismiss()
            return True
        return asks_for_escape(event) or super().eventFilter(watched, event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.window().installEventFilter(self)

    def hideEvent(self, event: QHideEvent) -> None:
        if self.window() is not self._ground:
            self.window().removeEventFilter(self)
        super().hideEvent(event)

    def _place(self) -> None:
        ground, holder = self._ground, self.parentWidget()
        if ground is not None and holder is not None:
            height = max(self.heightForWidth(ground.width()), self.minimumSizeHint().height())
            self.resize(ground.width(), height)
            self.move(ground.mapTo(holder, QPoint(0, ground.height() - height)))
            self.raise_()

    def post(
        self,
        sentence: str,
        kind: str = FAILURE,
        action: str = "",
        on_action: Callable[[], None] | None = None,
        *,
        about: str = "",
    ) -> None:
        """Shows a sentence, or queues it after the one on display.

        A sentence is not shown twice at a time; of two with an action the newer one counts. A notice replaces earlier
        ones `about` the same thing.
        """
        if about:
            self._drop(lambda older: older.about == about)
        if any(notice.sentence == sentence for notice in (*self._waiting, *([self.shown] if self.shown else []))):
            if not action:
                return
            self.retract(sentence)
        self._waiting.append(Notice(sentence, kind, action, on_action, about))
        if self.shown is None:
            self._next()
        else:
            self._count()

    def dismiss(self) -> None:
        self.shown = None
        self._next()

    def retract(self, sentence: str) -> None:
        self._drop(lambda notice: notice.sentence == sentence)

    def withdraw(self, action: str) -> None:
        self._drop(lambda notice: notice.action == action)

    def _drop(self, is_meant: Callable[[Notice], bool]) -> None:
        self._waiting = deque(notice for notice in self._waiting if not is_meant(notice))
        if self.shown is not None and is_meant(self.shown):
            self.dismiss()
        else:
            self._count()

    def clear(self) -> None:
        self._waiting.clear()
        self.dismiss()

    def _next(self) -> None:
        self._reading.stop()
        if not self._waiting:
            self.hide()
            return
        self.shown = self._waiting.popleft()
        self._text.setText(self.shown.sentence)
        self._action.setText(self.shown.action)
        self._action.setVisible(bool(self.shown.action))
        self._count()
        self._restyle()
        self._place()
        self.show()
        if self.shown.kind == INFO:
            self._reading.start(READING_MS)

    def _count(self) -> None:
        self._more.setText(f"{len(self._waiting)} more" if self._waiting else "")

    def act(self) -> None:
        notice = self.shown
        self.dismiss()
        if notice is not None and notice.on_action is not None:
            notice.on_action()

    def _restyle(self) -> None:
        theme = self._themes.theme
        self._dismiss.setIcon(icon("close", theme))
        if self.shown is None:
            return
        color = {FAILURE: theme.bad, WARNING: theme.warn}.get(self.shown.kind, theme.accent)
        self._sign.setPixmap(pixmap(_ICONS[self.shown.kind], color, self.devicePixelRatioF()))
        ground = theme.raised.name()
        self.setStyleSheet(
            f"MessageBar {{ background: {ground}; border: none; border-left: 3px solid {color.name()}; }}"
        )
