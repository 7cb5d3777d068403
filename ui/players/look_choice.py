"""How event players draw events: the choice of the user, kept in the settings, and the button that changes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, QSettings, Qt, Signal
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from ui.players.event_look import SPANS_US, EventLook, rendering_texts, span_words
from ui.style.theme import ThemeHolder, points

_KEY = "players/events"
_LABEL_PX, _HEIGHT = 10.0, 18


class LookChoice(QObject):
    """One look for all event players of the window.

    Signals:
        changed(): another look was chosen.
    """

    changed = Signal()

    def __init__(self, settings: QSettings | None = None, parent: QObject | None = None) -> None:
        """`settings` None: nothing is remembered."""
        super().__init__(parent)
        self._settings = settings
        self._look: EventLook | None = None

    @property
    def look(self) -> EventLook:
        """The chosen look; read from the settings on first use."""
        if self._look is None:
            self._look = EventLook.from_text("" if self._settings is None else str(self._settings.value(_KEY, "")))
        return self._look

    def choose(self, look: EventLook) -> None:
        if look == self.look:
            return
        self._look = look
        if self._settings is not None:
            self._settings.setValue(_KEY, look.text)
        self.changed.emit()


class LookButton(QToolButton):
    """The small button on the edge of an event player: what one picture gathers, and the menu of looks."""

    def __init__(self, themes: ThemeHolder, choice: LookChoice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._choice = choice
        self._room_px = 0.0
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill)
        self.setMenu(self._menu)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setAccessibleName("How events are drawn")
        choice.changed.connect(self._show_choice)
        themes.changed.connect(self._restyle)
        self._restyle()

    def fit(self, room_px: float) -> None:
        """Takes no more room than this: of words that do not fit only the arrow is left."""
        self._room_px = room_px
        self._show_choice()

    def _restyle(self, *_: object) -> None:
        theme = self._themes.theme
        ground, text, accent = theme.panel.name(), theme.text.name(), theme.accent.name()
        self.setStyleSheet(
            f"QToolButton {{ min-height: 0; padding: 1px 3px; border: 1px solid transparent; border-radius: 4px;"
            f" background: {ground}; color: {text}; font-size: {points(_LABEL_PX):.2f}pt }}"
            f"QToolButton:hover, QToolButton:focus {{ border-color: {accent} }}"
        )
        self._show_choice()

    def _show_choice(self) -> None:
        look = self._choice.look
        whole = f"{look.words} ▾"
        fits = self._themes.theme.text_width(whole, _LABEL_PX) + 14 <= self._room_px
        self.setText(whole if fits else "▾")
        title = rendering_texts()[look.rendering].title
        self.setToolTip(f"{title}; one picture gathers the last {look.words}.\nChoose how events are drawn here.")
        self.resize(self.sizeHint().width(), _HEIGHT)

    def _fill(self) -> None:
        look = self._choice.look
        self._menu.clear()
        texts = rendering_texts().items()
        self._offer((text.title, replace(look, rendering=name), text.sentence) for name, text in texts)
        self._menu.addSeparator()
        self._offer((f"last {span_words(span)}", replace(look, span_us=span), "") for span in SPANS_US)

    def _offer(self, entries: Iterable[tuple[str, EventLook, str]]) -> None:
        """Exclusive entries: text, the look it chooses, and a tool tip."""
        group = QActionGroup(self._menu)
        for text, look, tip in entries:
            action = group.addAction(self._menu.addAction(text, partial(self._choice.choose, look)))
            action.setCheckable(True)
            action.setChecked(look == self._choice.look)
            action.setToolTip(tip or text)
