"""The small button on the edge of an event player: says how much one picture gathers, and opens what can be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QActionGroup, QFontMetricsF, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from ui.players.event_look import BY_THEME, COUNTS, SPANS_US, EventLook, count_words, rendering_texts, span_words
from ui.players.look_choice import LookChoice
from ui.style.icons import pixmap
from ui.style.theme import ThemeHolder

_LABEL_PX = 10.0
_HEIGHT = 18
_ARROW = 10


class LookButton(QToolButton):
    """Painted over the picture, quietly; the menu is made when it is first opened."""

    def __init__(self, themes: ThemeHolder, choice: LookChoice, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._choice = choice
        self._room_px: float | None = None
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill)
        self.setMenu(self._menu)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setStyleSheet("QToolButton { min-height: 0; padding: 0; border: none; }")
        self.setAccessibleName("How events are drawn")
        choice.changed.connect(self.show_choice)
        themes.changed.connect(self._redraw)
        self.show_choice()

    def sizeHint(self) -> QSize:
        """As wide as its words; of what has less room only the arrow is left: half a number is another one."""
        words = QFontMetricsF(self._themes.theme.font(_LABEL_PX)).horizontalAdvance(self.text())
        whole = round(words) + _ARROW + 14
        is_whole = self._room_px is None or whole <= self._room_px
        return QSize(whole if is_whole else _ARROW + 8, _HEIGHT)

    def fit(self, room_px: float) -> None:
        """Takes no more room than this."""
        if room_px != self._room_px:
            self._room_px = room_px
            self._redraw()

    def show_choice(self) -> None:
        """Says what is chosen."""
        look = self._choice.look
        self.setText(look.words)
        if self.isVisible():
            self._explain()
        self.resize(self.sizeHint())
        self.update()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._explain()

    def _explain(self) -> None:
        look = self._choice.look
        title = rendering_texts()[look.rendering].title
        self.setToolTip(f"{title}; one picture gathers the last {look.words}.\nChoose how events are drawn here.")

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = self._themes.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        is_near = self.underMouse() or self.hasFocus()
        painter.setPen(theme.accent if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.setBrush(theme.alpha(theme.panel, 0.96 if is_near else 0.78))
        painter.drawRoundedRect(self.rect().toRectF().adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)
        color = theme.text if is_near else theme.text_dim
        painter.setPen(color)
        painter.setFont(theme.font(_LABEL_PX))
        room = self.rect().adjusted(6, 0, -_ARROW - 4, 0)
        if room.width() > 0:
            painter.drawText(room, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft), self.text())
        arrow = pixmap("chevron", color, self.devicePixelRatioF(), _ARROW)
        painter.drawPixmap(self.width() - _ARROW - 4, (self.height() - _ARROW) // 2, arrow)

    def _redraw(self) -> None:
        self.resize(self.sizeHint())
        self.update()

    def _fill(self) -> None:
        from evprof.loaders.pictures.palette import PALETTES

        menu, look = self._menu, self._choice.look
        menu.clear()
        kinds = _Radio(menu, self._choice)
        for name, (title, sentence) in rendering_texts().items():
            kinds.add(title, replace(look, rendering=name), name == look.rendering, sentence)
        menu.addSeparator()
        times = _Radio(menu, self._choice)
        for span_us in SPANS_US:
            is_chosen = look.count is None and span_us == look.span_us
            times.add(f"last {span_words(span_us)}", replace(look, span_us=span_us, count=None), is_chosen)
        for count in COUNTS:
            times.add(f"last {count_words(count)}", replace(look, count=count), count == look.count)
        menu.addSeparator()
        colors = menu.addMenu("Colours")
        colors.setEnabled(not look.is_as_model)
        colors.menuAction().setToolTip("EventGPT's pictures have its own colours." if look.is_as_model else "")
        palettes = _Radio(colors, self._choice)
        palettes.add("Follow the window", replace(look, palette=BY_THEME), look.palette == BY_THEME)
        for name, palette in PALETTES.items():
            palettes.add(palette.title, replace(look, palette=name), name == look.palette)
        clear = menu.addAction("Clear the region", lambda: self._choice.choose(replace(look, region=None)))
        clear.setEnabled(look.region is not None)
        clear.setToolTip(
            "Drag on the picture to choose a region." if look.region is None else "Counts all events again."
        )


class _Radio:
    """Entries of which one holds."""

    def __init__(self, menu: QMenu, choice: LookChoice) -> None:
        self._menu = menu
        self._choice = choice
        self._group = QActionGroup(menu)

    def add(self, text: str, look: EventLook, is_chosen: bool, tip: str = "") -> None:
        action = self._menu.addAction(text)
        action.setCheckable(True)
        action.setChecked(is_chosen)
        action.setToolTip(tip or text)
        self._group.addAction(action)
        action.triggered.connect(self._taker(look))

    def _taker(self, look: EventLook) -> Callable[[], None]:
        return lambda: self._choice.choose(look)
