"""The toolbar's buttons for models, mode, settings and exports, and the file dialogs for inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QFontMetrics
from PySide6.QtWidgets import QFileDialog, QMenu, QSizePolicy, QToolButton, QWidget

from evprof.core.sample import Sample
from evprof.core.texts import plain
from evprof.core.vocabulary.generation import OF_MODEL, ModelChoice
from evprof.core.vocabulary.modes import MODES
from evprof.export.formats import FORMATS, ExportFormat
from evprof.loaders.bundled import assets_folder
from ui.run_facts.run_text import input_name, mode_name, role_name
from ui.settings.request_form import RequestForm
from ui.style.theme import BUTTON_PX
from ui.widgets.label import elided_text, literal

ICON = 14
"""Size of the icons in logical px."""

_AROUND = 38
"""What icon and margins of a model's button take of its width, in logical px."""

MODEL_PX = 156
"""Most width of a model's button as long as nobody said another."""

_BEHIND = 8
"""The surplus that Qt leaves behind a word beside an icon."""


def _offered(entry: ExportFormat) -> tuple[str, str, str, str]:
    ending = "" if entry.is_folder else f" ({entry.endings[0]})"
    pattern = "Folder (*)" if entry.is_folder else f"{entry.many} (*{entry.endings[0]})"
    return f"{entry.title}{ending}…", f"Export {entry.title}{' into a folder' * entry.is_folder}", entry.name, pattern


EXPORTS = {
    "session": ("Session (.evprof)…", "Save session as", "session.evprof", "Sessions (*.evprof)"),
    **{key: _offered(entry) for key, entry in FORMATS.items()},
    "screenshot": ("Picture of the window (.png)…", "Save a picture of the window", "window.png", "Pictures (*.png)"),
}
"""What can be exported: what the menu and the dialog call it, the usual name, and the dialog's pattern."""


class ToolButton(QToolButton):
    """An icon and a word, as high as the toolbar's fields."""

    def __init__(self, text: str, tip: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(text or tip)
        self.setIconSize(QSize(ICON, ICON))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFixedHeight(BUTTON_PX)
        self.setStyleSheet("QToolButton { padding: 0 8px; min-height: 0; }")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        hint = super().sizeHint()
        has_both = self.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonTextBesideIcon and bool(self.text())
        return QSize(hint.width() - _BEHIND * has_both, hint.height())


class ModelButton(ToolButton):
    """Names the model of a role, with what was chosen for it; opens its picker."""

    def __init__(self, role: str, parent: QWidget | None = None) -> None:
        self._side = role_name(role)
        self._most_px = MODEL_PX
        super().__init__("", self._side, parent)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)

    def show_choice(self, choice: ModelChoice, width: int | None = None) -> None:
        """Shows a choice, in at most a width in logical px, the last one where none is given."""
        self._most_px = width or self._most_px
        chosen = [(entry, getattr(choice, entry.key)) for entry in OF_MODEL if entry.is_per_role]
        extras = [str(value) for entry, value in chosen if value != entry.default]
        text = " · ".join([input_name(choice.name), *extras])
        metrics = QFontMetrics(self.font())
        self.setFixedWidth(min(self._most_px, metrics.horizontalAdvance(text) + _AROUND + 1))
        self.setText(literal(elided_text(metrics, text, Qt.TextElideMode.ElideRight, self.width() - _AROUND)))
        told = ", ".join(f"{entry.name} {value}" for entry, value in chosen if value is not None)
        self.setToolTip(plain(f"{self._side}\n{choice.name}\n{told}"))


class SettingsButton(ToolButton):
    """Counts the settings that are not at their defaults; the tool tip names them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "Settings", parent)

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


class MenuButton(ToolButton):
    """Opens a menu."""

    def __init__(self, text: str, tip: str, parent: QWidget | None = None) -> None:
        super().__init__(text, tip, parent)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setMenu(QMenu(self))


class ModeButton(MenuButton):
    """Names what runs; its menu greys what lacks an input.

    Signals:
        chosen(str): one of MODES was taken from the menu.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("", "What runs", parent)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
        menu = self.menu()
        menu.setLayoutDirection(Qt.LayoutDirection.LeftToRight)  # only the button's arrow stands behind its word
        menu.setToolTipsVisible(True)
        self._form: RequestForm | None = None
        self._actions: dict[str, QAction] = {}
        for mode in MODES:
            action = menu.addAction(mode_name(mode))
            action.setCheckable(True)
            action.setData(mode)
            self._actions[mode] = action
        menu.aboutToShow.connect(self._fill)
        menu.triggered.connect(lambda action: self.chosen.emit(str(action.data())))

    def show_form(self, form: RequestForm) -> None:
        """Shows the mode that will run, and in the menu why others cannot."""
        self._form = form
        self.setText(mode_name(form.mode))

    def _fill(self) -> None:
        """Only when the menu opens: what some modes need is read from files."""
        form = self._form
        if form is None:
            return
        for name, action in self._actions.items():
            lack = form.mode_problem(name)
            action.setEnabled(not lack)
            action.setChecked(name == form.mode)
            action.setText(f"{mode_name(name)} – {lack}" if lack else mode_name(name))


class ExportButton(MenuButton):
    """What can be done with the results: exports, and the latest torch trace.

    Signals:
        export_requested(str): a key of EXPORTS.
        tensorboard_requested(): open the latest torch trace.
    """

    export_requested = Signal(str)
    tensorboard_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Export", "Export", parent)
        menu = self.menu()
        for key, (text, *_) in EXPORTS.items():
            menu.addAction(text).setData(key)
        menu.addSeparator()
        self._tensorboard = menu.addAction("Open torch trace in TensorBoard")
        menu.triggered.connect(self._take)

    def set_has_trace(self, has_trace: bool) -> None:
        self._tensorboard.setEnabled(has_trace)

    def _take(self, action: QAction) -> None:
        if action is self._tensorboard:
            self.tensorboard_requested.emit()
        else:
            self.export_requested.emit(str(action.data()))


EVENT_FAMILIES = (
    ("NumPy", ("npy", "npz")),
    ("HDF5 (DSEC, M3ED)", ("h5", "hdf5")),
    ("Prophesee", ("raw", "dat")),
    ("AEDAT", ("aedat4", "aedat")),
    ("Text", ("csv", "txt")),
    ("N-Caltech and N-MNIST", ("bin",)),
    ("rosbag", ("bag",)),
    ("Event Stream", ("es",)),
)
"""Suffixes of event recordings, by what people call their family."""

VIDEO_SUFFIXES = ("mp4", "avi", "mkv", "mov", "webm", "m4v", "mpg", "mpeg", "ts", "wmv", "flv", "ogv", "h264", "gif")

_ALL = "All files (*)"


def event_filters() -> str:
    """For a dialog that asks for event recordings: all of them first, then family by family."""
    everything = [suffix for _, suffixes in EVENT_FAMILIES for suffix in suffixes]
    families = [_filter(name, suffixes) for name, suffixes in EVENT_FAMILIES]
    return ";;".join([_filter("Event recordings", everything), *families, _ALL])


def video_filters() -> str:
    return ";;".join([_filter("Videos", VIDEO_SUFFIXES), _ALL])


def _filter(name: str, suffixes: tuple[str, ...] | list[str]) -> str:
    return f"{name} ({' '.join(f'*.{suffix}' for suffix in suffixes)})"


class InputDialogs:
    """Each begins where the open sample lies, unless that came with the program; nothing picked is an empty answer."""

    def __init__(self, parent: QWidget, sample: Callable[[], Sample]) -> None:
        self._parent = parent
        self._sample = sample

    def recordings(self) -> list[str]:
        return QFileDialog.getOpenFileNames(self._parent, "Open events", self._place(), event_filters())[0]

    def videos(self) -> list[str]:
        return QFileDialog.getOpenFileNames(self._parent, "Open video", self._place(), video_filters())[0]

    def folder(self, title: str) -> str:
        return QFileDialog.getExistingDirectory(self._parent, title, self._place())

    def _place(self) -> str:
        sample = self._sample()
        path = sample.events_path or sample.video_path
        if path is None or Path(path).is_relative_to(assets_folder()):
            return ""
        return str(Path(path).parent)
