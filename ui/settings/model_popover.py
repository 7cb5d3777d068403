"""The popover that chooses one side's model, and where and how it computes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QFrame, QGridLayout, QPushButton, QWidget

from evprof.core.errors import UserError
from evprof.core.records import DRAFT
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import OF_MODEL, ModelChoice
from evprof.core.vocabulary.setting import Setting
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from ui.run_facts.run_text import input_name, role_name
from ui.settings.checkpoints import clip_problem, family_of
from ui.state.recent import Recent
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import in_role, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label, elided_text, literal
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import say, section_head, sentence

WIDTH = 344
FOLDER = "folder"
OWN_CLIP, CHOOSE_CLIP = "CLIP tower: the checkpoint's own", "Choose a folder with a CLIP vision tower"


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
        self.choice = choice
        self._recent = recent
        self.list = LineList(themes, most_lines=10)
        self.list.setAccessibleName("Models")
        self.list.picked.connect(lambda name: self._take(name=str(name)))
        self.problem = sentence("bad")
        self.random = self._link("", self._show)
        self.random.setCheckable(True)
        choose_model = partial(self._browse, "Choose a checkpoint folder", self.choose_folder)
        browse = self._link("Browse a checkpoint folder…", choose_model)
        self.clip = self._link("", partial(self._browse, CHOOSE_CLIP, self.choose_clip))
        self.no_clip = self._link("Take the checkpoint's own CLIP tower", lambda: self._take(clip=None))
        self.boxes = {entry.key: self._box(entry, themes) for entry in OF_MODEL if entry.is_per_role}
        lower = QGridLayout()
        lower.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        lower.setSpacing(GRID)
        for row, widget in enumerate((self.random, self.problem, browse, self.clip, self.no_clip)):
            lower.addWidget(widget, row, 0, 1, 2)
        for row, box in enumerate(self.boxes.values(), start=5):
            label = in_role(Label(box.accessibleName()), "dim")
            label.setBuddy(box)
            lower.addWidget(label, row, 0)
            lower.addWidget(box, row, 1)
        lower.setColumnStretch(1, 1)
        head = section_head(role_name(role))
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        self._rows = stacked(head, self.list, lower, on=self, margins=(0, GRID, 0, GRID), spacing=GRID)
        self.setFixedWidth(WIDTH)
        self._show()

    def _link(self, text: str, work: Callable[[], object]) -> QPushButton:
        button = in_role(QPushButton(text, self), "link")
        button.clicked.connect(lambda _=False: work())
        return button

    def _box(self, entry: Setting, themes: ThemeHolder) -> ChoiceBox:
        box, value = ChoiceBox(themes), getattr(self.choice, entry.key)
        for known, text in entry.choices:
            box.addItem(text, known)
        box.setToolTip(entry.sentence)
        box.setAccessibleName(entry.name.capitalize())
        box.setEditable(entry.is_free)
        if entry.is_free:
            box.setCurrentText(value)
            box.currentTextChanged.connect(lambda text: self._take(**{entry.key: text.strip() or entry.default}))
        else:
            box.setCurrentIndex(max(box.findData(value), 0))
            box.currentIndexChanged.connect(lambda place: self._take(**{entry.key: box.itemData(place)}))
        return box

    def open_below(self, widget: QWidget) -> None:
        self._show()
        self.move(widget.mapToGlobal(QPoint(0, widget.height() + GRID // 2)))
        self.show()

    def choose_folder(self, folder: str) -> None:
        try:
            family_of(folder, self._role)
        except UserError as error:
            say(self.problem, error.sentence)
        else:
            self._recent.note_model(folder)
            say(self.problem, "")
            self._take(name=folder)
        self._show()

    def choose_clip(self, folder: str) -> None:
        """Takes a CLIP folder for the event model's tower, or shows why it cannot."""
        problem = clip_problem(folder)
        say(self.problem, problem)
        if not problem:
            self._take(clip=folder)
        self._show()

    def _browse(self, title: str, choose: Callable[[str], None]) -> None:
        if folder := QFileDialog.getExistingDirectory(self.parentWidget(), title):
            choose(folder)
            self.show()

    def _take(self, **changes: Any) -> None:
        choice = replace(self.choice, **changes)
        if choice != self.choice:
            self.choice = choice
            self._show()
            self.chosen.emit(choice)

    def _show(self) -> None:
        """Lists the models, and fits the height to the parts: a sentence that wraps needs more than Qt guesses."""
        names = self._offered()
        self.random.setText(f"Shapes with random weights {'▾' if self.random.isChecked() else '▸'}")
        lines = [ListLine(name, input_name(name) if what == FOLDER else name, what, tip=name) for name, what in names]
        self.list.show_lines(lines, self.choice.name)
        clip, room = self.choice.clip, WIDTH - 5 * GRID
        text = OWN_CLIP if clip is None else f"CLIP tower: {clip}"
        self.clip.setText(literal(elided_text(self.clip.fontMetrics(), text, Qt.TextElideMode.ElideMiddle, room)))
        self.clip.setToolTip(CHOOSE_CLIP if clip is None else clip)
        self.clip.setVisible(self._role == DRAFT)
        self.no_clip.setVisible(clip is not None)
        self._rows.activate()
        wraps = self._rows.hasHeightForWidth()
        self.setFixedHeight(self._rows.totalHeightForWidth(WIDTH) if wraps else self.sizeHint().height())

    def _offered(self) -> list[tuple[str, str]]:
        """Names of models and what each is; remembered folders that are still checkpoints of this side."""
        words = [family.word for family in FAMILIES.values() if family.role == self._role]
        offered = {BUNDLED_DRAFT if self._role == DRAFT else BUNDLED_TARGET: "bundled"}
        shapes = [f"random:{size}-{word}" for size in ("160m", "7b") for word in words]
        offered |= {name: "random" for name in shapes if self.random.isChecked() or name == self.choice.name}
        for folder in (self.choice.name, *self._recent.models):
            with suppress(UserError):
                if folder not in offered and (folder == self.choice.name or family_of(folder, self._role)):
                    offered[folder] = FOLDER
        return list(offered.items())
