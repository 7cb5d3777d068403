"""Colours, type and spacing of the window, light and dark, and the style sheet made of them.

Views ask the theme for colours by name and never write one themselves; palettes live in `evprof.view.colors`, where
their contrast is tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from PySide6.QtCore import QObject, QPointF, QRectF, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QGuiApplication, QPainter, QPalette, QScreen
from PySide6.QtWidgets import QApplication

from evprof.view import colors
from ui.style.stylesheet import sheet

GRID = 8
"""Spacing unit in logical px; margins and gaps are multiples or halves of it."""

BUTTON_PX = 28
"""Height of buttons and fields in logical px."""

RADIUS = 4
"""Corner radius of bars, buttons and fields in logical px."""

BASE_PX = 12.5
"""Text size in logical px."""

SMALL_PX = 11.0
"""Size of section heads (upper case), axis labels and chips in logical px."""

ANSWER_PX = 14.0
"""Size of generated text in logical px."""

_WEIGHTS = ("Regular", "Medium", "SemiBold")


@dataclass(frozen=True)
class Theme:
    """One look. Colours are QColor; `stages` maps stage names, `draft` and `verify` to theirs."""

    name: str
    window: QColor
    panel: QColor
    raised: QColor
    line: QColor
    text: QColor
    text_dim: QColor
    accent: QColor
    good: QColor
    bad: QColor
    warn: QColor
    selection: QColor
    stages: dict[str, QColor] = field(default_factory=dict)

    @property
    def is_dark(self) -> bool:
        return self.window.lightnessF() < self.text.lightnessF()

    def stage(self, name: str) -> QColor:
        """The colour of a stage, `draft` or `verify`; dim text for a name that has none."""
        return self.stages.get(name, self.text_dim)

    def origin(self, name: str) -> QColor:
        """The colour of a token's origin (target, accepted, bonus, draft, rejected); its shape is the view's part."""
        return {"accepted": self.good, "rejected": self.bad, "bonus": self.warn, "draft": self.stage("draft")}.get(
            name, self.text
        )

    def ink(self, ground: QColor) -> QColor:
        """Near-black or white, whichever reads better on `ground`."""
        return QColor(_ink(ground.name()))

    def readable(self, color: QColor, ground: QColor) -> QColor:
        """The colour, nearer to the text's where it cannot be read in small letters on `ground`."""
        return QColor(_readable(color.name(), ground.name(), self.text.name()))

    def alpha(self, color: QColor, opacity: float) -> QColor:
        """The same colour, see-through: `opacity` 0…1. Made once and shared: it is not to be changed."""
        return _softened(color.rgba(), opacity)

    def font(self, size_px: float = BASE_PX, weight: int = 400) -> QFont:
        """The window's sans with tabular figures, at a size in logical px."""
        return QFont(_font(size_px, weight))

    def text_width(self, text: str, size_px: float = BASE_PX, weight: int = 400) -> float:
        """Width of a text in that font, in logical px."""
        return _text_width(text, size_px, weight)

    def write(self, painter: QPainter, room: QRectF, text: str, size_px: float = BASE_PX, weight: int = 400) -> None:
        """Writes a short text from the left end of `room`, vertically centred and not clipped.

        It takes a third of the time of `drawText` with a rectangle.
        """
        font, baseline = _line(size_px, weight)
        painter.setFont(font)
        painter.drawText(QPointF(room.left(), room.top() + room.height() / 2 + baseline), text)

    def stylesheet(self) -> str:
        """The Qt style sheet for every widget; see `ui.style.stylesheet` for the properties views may set."""
        names = ("window", "panel", "raised", "line", "text", "text_dim", "accent", "good", "bad", "warn", "selection")
        return sheet(
            {name: getattr(self, name).name() for name in names}
            | {
                "accent_ink": self.ink(self.accent).name(),
                "hover": _between(self.raised, self.text, 0.06),
                "faint": _between(self.raised, self.text_dim, 0.55),
            },
            small_pt=points(SMALL_PX),
            text_pt=points(ANSWER_PX),
        )

    def palette(self) -> QPalette:
        """The same colours for what style sheets do not reach."""
        palette = QPalette()
        roles = QPalette.ColorRole
        for role, color in (
            (roles.Window, self.window),
            (roles.Base, self.panel),
            (roles.AlternateBase, self.raised),
            (roles.Button, self.raised),
            (roles.Text, self.text),
            (roles.WindowText, self.text),
            (roles.ButtonText, self.text),
            (roles.PlaceholderText, self.text_dim),
            (roles.Highlight, self.selection),
            (roles.HighlightedText, self.text),
            (roles.ToolTipBase, self.raised),
            (roles.ToolTipText, self.text),
            (roles.Link, self.accent),
        ):
            palette.setColor(role, color)
        for role in (roles.Text, roles.WindowText, roles.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, role, self.text_dim)
        return palette


def _between(first: QColor, second: QColor, share: float) -> str:
    parts = (
        round(a + (b - a) * share)
        for a, b in zip(first.getRgb()[:3], second.getRgb()[:3], strict=True)  # type: ignore[index]  # a 4-tuple
    )
    return QColor(*parts).name()


def _make(name: str, ground: dict[str, str], stages: dict[str, str]) -> Theme:
    return Theme(
        name=name,
        **{key: QColor(value) for key, value in ground.items()},
        stages={key: QColor(value) for key, value in stages.items()},
    )


@cache
def dark() -> Theme:
    return _make("dark", colors.GROUND_DARK, colors.STAGE_COLORS_DARK)


@cache
def light() -> Theme:
    return _make("light", colors.GROUND_LIGHT, colors.STAGE_COLORS_LIGHT)


def theme_named(name: str) -> Theme:
    """ "dark" or "light"."""
    return light() if name == "light" else dark()


def points(size_px: float) -> float:
    """Logical px as points of the primary screen; fractions of a pixel survive only this way."""
    screen: QScreen | None = QGuiApplication.primaryScreen()
    return size_px * 72.0 / (96.0 if screen is None else screen.logicalDotsPerInch())


@cache
def _font(size_px: float, weight: int) -> QFont:
    font = QFont(font_family())
    font.setPointSizeF(points(size_px))
    font.setWeight(QFont.Weight(weight))
    font.setFeature(QFont.Tag("tnum"), 1)
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    return font


@cache
def _line(size_px: float, weight: int) -> tuple[QFont, float]:
    """A font, and how far the letters' feet stand below the middle of a line of it."""
    font = _font(size_px, weight)
    metrics = QFontMetricsF(font)
    return font, metrics.ascent() - metrics.height() / 2


@lru_cache(maxsize=2_000)
def _text_width(text: str, size_px: float, weight: int) -> float:
    return QFontMetricsF(_font(size_px, weight)).horizontalAdvance(text)


@lru_cache(maxsize=500)
def _softened(rgba: int, opacity: float) -> QColor:
    softened = QColor.fromRgba(rgba)
    softened.setAlphaF(opacity)
    return softened


_ink = lru_cache(maxsize=100)(colors.ink_on)
_readable = lru_cache(maxsize=100)(colors.readable_on)


@cache
def font_family() -> str:
    """Loads the bundled sans once and returns its family name; the system's own sans when the files are missing."""
    import assets

    folder = Path(assets.__file__).parent / "fonts"
    numbers = [QFontDatabase.addApplicationFont(str(folder / f"Inter-{name}.ttf")) for name in _WEIGHTS]
    families = QFontDatabase.applicationFontFamilies(numbers[0]) if numbers[0] >= 0 else []
    return families[0] if families else QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()


class ThemeHolder(QObject):
    """The theme in force.

    Signals:
        changed(object): the new Theme, after the application's style sheet and palette were set.
    """

    changed = Signal(object)

    def __init__(self, theme: Theme | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme or dark()
        self._apply()

    @property
    def theme(self) -> Theme:
        return self._theme

    def set_theme(self, theme: Theme) -> None:
        if theme.name == self._theme.name:
            return
        self._theme = theme
        self._apply()
        self.changed.emit(theme)

    def toggle(self) -> None:
        self.set_theme(light() if self._theme.is_dark else dark())

    def detach(self) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setStyleSheet("")

    def _apply(self) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setFont(self._theme.font())
            application.setPalette(self._theme.palette())
            application.setStyleSheet(self._theme.stylesheet())
