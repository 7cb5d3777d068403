"""The toolbar's buttons for models, mode, settings and exports."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QMenu, QSizePolicy, QToolButton

from evprof.core.texts import plain
from evprof.core.vocabulary.generation import OF_MODEL, ModelChoice
from evprof.core.vocabulary.modes import MODES
from evprof.export.formats import FORMATS, ExportFormat
from ui.run_facts.run_text import input_name, mode_name, role_name
from ui.settings.request_form import NEEDS_MAP, RequestForm
from ui.style.theme import BUTTON_PX
from ui.widgets.label import elided_text, literal

ICON = 14
"""Size of the icons in logical px."""

_AROUND = 38
"""Width of icon and margins of a model's button, in logical px."""


def _offered(entry: ExportFormat) -> tuple[str, str, str, str]:
    ending = "" if entry.is_folder else f" ({entry.endings[0]})"
    pattern = "Folder (*)" if entry.is_folder else f"{entry.title} (*{entry.endings[0]})"
    return f"{entry.title}{ending}…", f"Export {entry.title}{' into a folder' * entry.is_folder}", entry.name, pattern


EXPORTS = {
    "session": ("Session (.evprof)…", "Save session as", "session.evprof", "Sessions (*.evprof)"),
    **{key: _offered(entry) for key, entry in FORMATS.items()},
    "screenshot": ("Picture of the window (.png)…", "Save a picture of the window", "window.png", "Pictures (*.png)"),
}
"""By key: the text of the menu, the title of the dialog, the usual name, and the dialog's pattern."""

MORE_FORMATS = ("aiperf", "predictions", "parquet", "rerun")
"""Exports of a menu of their own: few people need them."""


class ToolButton(QToolButton):
    """An icon and a word, as high as the toolbar's fields; `has_menu`: a click opens its menu."""

    def __init__(self, text: str, tip: str, *, has_menu: bool = False) -> None:
        super().__init__()
        self.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(text or tip)
        self.setIconSize(QSize(ICON, ICON))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFixedHeight(BUTTON_PX)
        self.setStyleSheet("QToolButton { padding: 0 8px; min-height: 0; }")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        if has_menu:
            self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
            self.setMenu(QMenu(self))


class ModelButton(ToolButton):
    """The name of a role's model with its other choices; opens its popover."""

    def __init__(self, role: str) -> None:
        self._side = role_name(role)
        super().__init__("", self._side)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)

    def show_choice(self, choice: ModelChoice, most_px: int) -> None:
        """Shows a choice in at most a width in logical px."""
        chosen = [(entry, getattr(choice, entry.key)) for entry in OF_MODEL if entry.is_per_role]
        extras = [str(value) for entry, value in chosen if value != entry.default]
        text = " · ".join([input_name(choice.name), *extras])
        metrics = QFontMetrics(self.font())
        self.setFixedWidth(min(most_px, metrics.horizontalAdvance(text) + _AROUND + 1))
        self.setText(literal(elided_text(metrics, text, Qt.TextElideMode.ElideRight, self.width() - _AROUND)))
        values = ", ".join(f"{entry.name} {value}" for entry, value in chosen if value is not None)
        self.setToolTip(plain(f"{self._side}\n{choice.name}\n{values}"))


class SettingsButton(ToolButton):
    """The number of settings that are not at their defaults; the tool tip names them."""

    def __init__(self) -> None:
        super().__init__("", "Settings")

    def show_form(self, form: RequestForm) -> None:
        names = {key: control.name for key, control in form.controls.items()}
        changed, idle = form.changed, form.idle
        style = Qt.ToolButtonStyle
        self.setText(str(len(changed)) if changed else "")
        self.setToolButtonStyle(style.ToolButtonTextBesideIcon if changed else style.ToolButtonIconOnly)
        lines = ["Settings: measuring, sampling, input, optimizations (Ctrl+,)"]
        if changed:
            lines.append("Not at their defaults: " + ", ".join(names[key] for key in changed))
        lines += [f"Set, but not in use now: {names[key]}. {reason}" for key, reason in idle.items()]
        self.setToolTip("\n".join(lines))


class ModeButton(ToolButton):
    """The mode of the next run; its menu greys modes without their input, and lists no mode that needs
    a trained map while there is none.

    Signals:
        chosen(str): one of MODES was taken from the menu.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__("", "What runs", has_menu=True)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        self.menu().setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # only the button's arrow stands behind its word
        self._form: RequestForm | None = None
        self.menu().aboutToShow.connect(self._fill)
        self.menu().triggered.connect(lambda action: self.chosen.emit(str(action.data())))

    def show_form(self, form: RequestForm) -> None:
        self._form = form
        self.setText(mode_name(form.mode))

    def _fill(self) -> None:
        """Called when the menu opens, because the needs of some modes are read from files."""
        self.menu().clear()
        if (form := self._form) is None:
            return
        for mode in MODES:
            if (lack := form.mode_problem(mode)) == NEEDS_MAP:
                continue
            action = self.menu().addAction(f"{mode_name(mode)} – {lack}" if lack else mode_name(mode))
            action.setData(mode)
            action.setCheckable(True)
            action.setChecked(mode == form.mode)
            action.setEnabled(not lack)


class ExportButton(ToolButton):
    """Exports of the session.

    Signals:
        export_requested(str): a key of EXPORTS.
    """

    export_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__("Export", "Export", has_menu=True)
        more = QMenu("More formats", self.menu())
        for key, (text, *_) in EXPORTS.items():
            (more if key in MORE_FORMATS else self.menu()).addAction(text).setData(key)
        self.menu().addMenu(more)
        self.menu().triggered.connect(lambda action: self.export_requested.emit(str(action.data())))
