"""The toolbar's buttons: plain ones, the one that names a model, and the one that counts changed settings."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from evprof.core.records import DRAFT
from evprof.core.request import ModelChoice
from ui.models.controls import controls
from ui.models.request_form import RequestForm
from ui.models.run_text import input_name

ICON = 14
"""Size of the icons in logical px."""

_HEIGHT = 28
_AROUND = 38
"""What icon and margins of a model's button take of its width, in logical px."""


class ToolButton(QToolButton):
    """An icon and a word, as high as the toolbar's fields."""

    def __init__(self, text: str, tip: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(text or tip)
        self.setIconSize(QSize(ICON, ICON))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFixedHeight(_HEIGHT)
        self.setStyleSheet("QToolButton { padding: 0 8px; min-height: 0; }")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)


class ModelButton(ToolButton):
    """Names the model of a role, with what was chosen for it; opens its picker."""

    def __init__(self, role: str, parent: QWidget | None = None) -> None:
        self._side = "Event model (draft)" if role == DRAFT else "Video model (target)"
        super().__init__("", self._side, parent)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)

    def show_choice(self, choice: ModelChoice, width: int | None = None) -> None:
        """Shows a choice, in a width in logical px where one is given."""
        if width is not None:
            self.setFixedWidth(width)
        extras = [part for part in (choice.device, choice.dtype) if part != "auto"]
        extras += [choice.quantization] if choice.quantization else []
        text = " · ".join([input_name(choice.name), *extras])
        metrics = QFontMetrics(self.font())
        self.setText(metrics.elidedText(text, Qt.TextElideMode.ElideRight, self.width() - _AROUND))
        weights = f", weights {choice.quantization}" if choice.quantization else ""
        tip = f"{self._side}\n{choice.name}\ndevice {choice.device}, arithmetic {choice.dtype}{weights}"
        self.setToolTip(tip)


class SettingsButton(ToolButton):
    """Counts the settings that are not at their defaults; the tool tip names them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "Settings", parent)

    def show_form(self, form: RequestForm) -> None:
        """Counts again."""
        names = {control.key: control.name for control in controls()}
        changed, idle = form.changed, form.idle
        style = Qt.ToolButtonStyle
        self.setText(str(len(changed)) if changed else "")
        self.setToolButtonStyle(style.ToolButtonTextBesideIcon if changed else style.ToolButtonIconOnly)
        lines = ["Settings: measuring, sampling, input, optimizations (Ctrl+,)"]
        if changed:
            lines.append("Not at their defaults: " + ", ".join(names[key] for key in changed))
        lines += [f"Set, but not in use now: {names[key]}. {reason}" for key, reason in idle.items()]
        self.setToolTip("\n".join(lines))
