"""Messages that don't block: the newest lies over the views, earlier ones behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QToolButton, QWidget

from ui.style.icons import SIZE, icon, pixmap
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.drawn import asks_for_escape, is_escape
from ui.widgets.label import Label, elided_text, literal

READING_MS = 8000
"""How long information without an action stays; everything else stays until it is dismissed."""

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
    """The bar; hidden while there is nothing to say."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._notices: list[Notice] = []
        self._ground: QWidget | None = None
        self._sign = Label()
        self._text = Label()
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._more = in_role(QPushButton(), "link")
        self._more.setAccessibleDescription("Lists earlier messages")
        self._more.clicked.connect(self._list_earlier)
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

    @property
    def shown(self) -> Notice | None:
        """The notice on display."""
        return self._notices[-1] if self._notices else None

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
        """Shows a sentence; earlier ones stay behind it. A notice replaces those with its sentence or `about` its
        subject."""
        others = [one for one in self._notices if one.sentence != sentence and not (about and one.about == about)]
        self._keep([*others, Notice(sentence, kind, action, on_action, about)])

    def dismiss(self) -> None:
        self._keep(self._notices[:-1])

    def withdraw(self, action: str) -> None:
        self._keep([notice for notice in self._notices if notice.action != action])

    def clear(self) -> None:
        self._keep([])

    def _keep(self, notices: list[Notice]) -> None:
        """Shows the last of these notices. Information without an action goes after `READING_MS`."""
        before, self._notices = self.shown, notices
        if (shown := self.shown) is None:
            self._reading.stop()
            self.hide()
            return
        earlier = len(notices) - 1
        self._more.setText(f"{earlier} earlier")
        self._more.setVisible(earlier > 0)
        if shown is before:
            return
        self._text.setText(shown.sentence)
        self._action.setText(shown.action)
        self._action.setVisible(bool(shown.action))
        self._restyle()
        self._place()
        self.show()
        self._reading.stop()
        if shown.kind == INFO and not shown.action:
            self._reading.start(READING_MS)

    def _list_earlier(self) -> None:
        """A menu of the earlier notices, the newest first; the chosen one comes to the front."""
        menu = ChoiceMenu(self)
        for notice in reversed(self._notices[:-1]):
            text = elided_text(self.fontMetrics(), notice.sentence, Qt.TextElideMode.ElideRight, self.width() / 2)
            menu.addAction(literal(text)).triggered.connect(partial(self._bring_forward, notice))
        menu.popup(self._more.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def _bring_forward(self, notice: Notice, _: bool = False) -> None:
        self._keep([*(other for other in self._notices if other is not notice), notice])

    def act(self) -> None:
        notice = self.shown
        self.dismiss()
        if notice is not None and notice.on_action is not None:
            notice.on_action()

    def undo(self) -> None:
        """Undoes what the newest notice with Undo is about, whether it is on display or not."""
        notice = next((notice for notice in reversed(self._notices) if notice.action == UNDO), None)
        if notice is not None:
            self._bring_forward(notice)
            self.act()

    def _restyle(self) -> None:
        theme = self._themes.theme
        self._dismiss.setIcon(icon("close", theme))
        if self.shown is None:
            return
        color = {FAILURE: theme.bad, WARNING: theme.warn}.get(self.shown.kind, theme.accent)
        self._sign.setPixmap(pixmap(_ICONS[self.shown.kind], color, self.devicePixelRatioF()))
        look = f"background: {theme.raised.name()}; border: none; border-left: 3px solid {color.name()};"
        self.setStyleSheet(f"MessageBar {{ {look} }}")
