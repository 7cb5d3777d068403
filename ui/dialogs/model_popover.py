"""The popover that chooses one side's model: bundled, random, recent or a folder, with device and arithmetic."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from evprof.core.errors import UserError
from evprof.core.records import DRAFT, TARGET
from evprof.core.request import DTYPES, ModelChoice
from ui.models.checkpoint_folder import family_of
from ui.models.recent import Recent
from ui.models.request_form import BUNDLED_DRAFT, BUNDLED_TARGET
from ui.models.run_text import SHORT_DTYPES
from ui.theme import GRID, ThemeHolder
from ui.views.line_list import Line, LineList
from ui.views.panel_parts import say, section_head, sentence

WIDTH = 320

DEVICES = ("auto", "cpu", "cuda", "cuda:0", "cuda:1")

_OFFERED: dict[str, tuple[tuple[str, str], ...]] = {
    DRAFT: (
        (BUNDLED_DRAFT, "bundled"),
        ("random:160m-eventgpt", "random weights"),
        ("random:7b-eventgpt", "random weights"),
    ),
    TARGET: (
        (BUNDLED_TARGET, "bundled"),
        ("random:160m-video-llava", "random weights"),
        ("random:7b-video-llava", "random weights"),
        ("random:7b-llava", "random weights"),
    ),
}


class ModelPopover(QFrame):
    """Opens below its button and closes when a click falls outside.

    Signals:
        chosen(object): the ModelChoice, after every change.
    """

    chosen = Signal(object)

    def __init__(
        self, role: str, choice: ModelChoice, recent: Recent, themes: ThemeHolder, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("role", "card")
        self._role = role
        self._choice = choice
        self._recent = recent
        self.list = LineList(themes, most_lines=10)
        self.list.setAccessibleName("Models")
        self.list.picked.connect(self._pick)
        self.problem = sentence("bad")
        browse = QPushButton("Browse a checkpoint folder…")
        browse.setProperty("role", "link")
        browse.clicked.connect(self._browse)
        self.device = QComboBox()
        self.device.addItems(DEVICES)
        self.device.setEditable(True)
        self.device.setCurrentText(choice.device)
        self.device.currentTextChanged.connect(self._set_device)
        self.dtype = QComboBox()
        for name in DTYPES:
            self.dtype.addItem(SHORT_DTYPES.get(name, name), name)
        self.dtype.setCurrentIndex(DTYPES.index(choice.dtype) if choice.dtype in DTYPES else 0)
        self.dtype.currentIndexChanged.connect(self._set_dtype)
        column = self._rows = QVBoxLayout(self)
        column.setContentsMargins(0, GRID, 0, GRID)
        column.setSpacing(GRID)
        head = section_head("Event model (draft)" if role == DRAFT else "Video model (target)")
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        column.addWidget(head)
        column.addWidget(self.list)
        lower = QGridLayout()
        lower.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        lower.setSpacing(GRID)
        lower.addWidget(self.problem, 0, 0, 1, 2)
        lower.addWidget(browse, 1, 0, 1, 2)
        for row, (text, box) in enumerate((("Device", self.device), ("Arithmetic", self.dtype)), start=2):
            label = QLabel(text)
            label.setProperty("role", "dim")
            label.setBuddy(box)
            lower.addWidget(label, row, 0)
            lower.addWidget(box, row, 1)
        lower.setColumnStretch(1, 1)
        column.addLayout(lower)
        self.setFixedWidth(WIDTH)
        self._fill()

    @property
    def choice(self) -> ModelChoice:
        """What is chosen now."""
        return self._choice

    def open_below(self, widget: QWidget) -> None:
        """Shows itself under its button."""
        self._fill()
        self._fit()
        self.move(widget.mapToGlobal(QPoint(0, widget.height() + GRID // 2)))
        self.show()

    def choose_folder(self, folder: str) -> None:
        """Takes a checkpoint folder, or says why not."""
        try:
            family_of(folder, self._role)
        except UserError as error:
            say(self.problem, error.sentence)
            self._fit()
            return
        say(self.problem, "")
        self._recent.note_model(folder)
        self._take(ModelChoice(folder, self._choice.device, self._choice.dtype))

    def _fill(self) -> None:
        offered = list(_OFFERED[self._role])
        names = {name for name, _ in offered}
        for folder in (self._choice.name, *self._recent.models):
            if folder not in names and self._fits(folder):
                offered.append((folder, "folder"))
                names.add(folder)
        self.list.show_lines([Line(name, name, what, tip=name) for name, what in offered], self._choice.name)

    def _fit(self) -> None:
        """As high as its parts; a sentence that wraps needs more than Qt guesses by itself."""
        self._rows.activate()
        wraps = self._rows.hasHeightForWidth()
        self.setFixedHeight(self._rows.totalHeightForWidth(WIDTH) if wraps else self.sizeHint().height())

    def _fits(self, folder: str) -> bool:
        """Whether a remembered folder still is a checkpoint for this side; what is chosen is listed anyway."""
        if folder == self._choice.name:
            return True
        try:
            family_of(folder, self._role)
        except UserError:
            return False
        return True

    def _browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.parentWidget(), "Choose a checkpoint folder")
        if folder:
            self.choose_folder(folder)
            self._fill()
            self.show()

    def _pick(self, name: object) -> None:
        self._take(ModelChoice(str(name), self._choice.device, self._choice.dtype))

    def _set_device(self, device: str) -> None:
        self._take(ModelChoice(self._choice.name, device.strip() or "auto", self._choice.dtype))

    def _set_dtype(self, index: int) -> None:
        self._take(ModelChoice(self._choice.name, self._choice.device, DTYPES[index]))

    def _take(self, choice: ModelChoice) -> None:
        if choice != self._choice:
            self._choice = choice
            self.chosen.emit(choice)
