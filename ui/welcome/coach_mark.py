"""A card that points at a part of the window and says what to do there. It takes no focus and blocks nothing."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QPushButton, QWidget

from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.label import Label
from ui.widgets.layout import area_of

_WIDTH_PX = 36 * GRID
_TIP_PX = GRID
_EDGE_PX = GRID
_SCROLLED_MS = 400
"""By then what the step before asked for was scrolled into sight, too."""


class CoachMark(QWidget):
    """Stands below its target where there is room, else above it.

    Signals:
        dismissed(): the person wants no more of it.
    """

    dismissed = Signal()

    def __init__(self, themes: ThemeHolder, window: QWidget) -> None:
        super().__init__(window)
        self._themes = themes
        self._window = window
        self._target: QWidget | None = None
        self._tip = QPointF()
        self._is_below = True
        self.setFixedWidth(_WIDTH_PX)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._place_text = in_role(Label(), "small")
        self._title = in_role(Label(), "title")
        self._text = Label()
        for label in (self._title, self._text):
            label.setWordWrap(True)
        self.end_button = in_role(QPushButton("End the tour"), "link")
        self.end_button.clicked.connect(self.dismissed)
        stacked(
            beside(self._place_text, None, self.end_button),
            self._title,
            self._text,
            on=self,
            margins=(2 * GRID, GRID + _TIP_PX, 2 * GRID, GRID + 4 + _TIP_PX),
            spacing=GRID // 2,
        )
        window.installEventFilter(self)
        themes.changed.connect(self.update)
        self.hide()

    @property
    def words(self) -> tuple[str, str, str]:
        """Which step it is, what it says to do, and why."""
        return self._place_text.text(), self._title.text(), self._text.text()

    def point_at(self, target: QWidget, place: str, title: str, text: str) -> None:
        """Says something about a part of the window, which is scrolled into sight."""
        self._target = target
        self._scroll()
        QTimer.singleShot(_SCROLLED_MS, self, self._scroll)
        self._place_text.setText(place)
        self._title.setText(title)
        self._text.setText(text)
        self.setAccessibleName(f"{place}: {title}")
        self.setAccessibleDescription(text)
        self.follow()
        self.show()
        self.raise_()

    def _scroll(self) -> None:
        area = None if self._target is None else area_of(self._target)
        if self._target is not None and area is not None:
            area.ensureWidgetVisible(self._target)

    def follow(self) -> None:
        """Goes where its target is, or the area in which that was scrolled out of sight."""
        target = self._target
        if target is None:
            return
        if (area := area_of(target)) is not None and target.visibleRegion().isEmpty():
            target = area
        self.setFixedHeight(max(self.heightForWidth(_WIDTH_PX), self.minimumSizeHint().height()))
        corner = target.mapTo(self._window, QPoint(0, 0)) if self._window.isAncestorOf(target) else QPoint(0, 0)
        middle = corner.x() + target.width() // 2
        below = corner.y() + target.height()
        self._is_below = below + self.height() <= self._window.height()
        top = below if self._is_below else corner.y() - self.height()
        if top < 0:
            # A part that is as high as the window is pointed at from within.
            self._is_below, top = True, corner.y() + target.height() // 3
        left = min(max(middle - _WIDTH_PX // 2, _EDGE_PX), self._window.width() - _WIDTH_PX - _EDGE_PX)
        self._tip = QPointF(min(max(middle - left, 3 * GRID), _WIDTH_PX - 3 * GRID), 0)
        if (left, top) != (self.x(), self.y()):
            self.move(left, top)
        self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follows the window's size; never keeps an event from its receiver."""
        if event.type() == QEvent.Type.Resize and not self.isHidden():
            self.follow()
        return super().eventFilter(watched, event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = self._themes.theme
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        box = QRectF(self.rect()).adjusted(0.75, _TIP_PX, -0.75, -_TIP_PX)
        painter.setPen(QPen(theme.accent, 1.5))
        painter.setBrush(theme.raised)
        painter.drawRoundedRect(box, 6, 6)
        x, base, point = self._tip.x(), box.top(), 1.0
        if not self._is_below:
            base, point = box.bottom(), self.height() - 1.0
        tip = [QPointF(x - _TIP_PX, base), QPointF(x, point), QPointF(x + _TIP_PX, base)]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.drawPolygon(QPolygonF(tip))
        painter.setPen(QPen(theme.accent, 1.5))
        painter.drawPolyline(QPolygonF(tip))
        painter.end()
