"""The popover that chooses one side's model, where and how it computes, and says whether it fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QHideEvent, QStandardItemModel
from PySide6.QtWidgets import QFileDialog, QFrame, QGridLayout, QPushButton, QToolButton, QWidget

from evprof.core.errors import UserError
from evprof.core.records import DRAFT
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import OF_MODEL, ModelChoice, drawback_of, remark_on
from evprof.core.vocabulary.setting import Setting
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from ui.run_facts.run_text import input_name, role_name
from ui.settings.examiner import Examiner
from ui.settings.model_report import ModelReport, clip_problem, family_of, model_report, pending_report
from ui.state.recent import Recent
from ui.style.icons import icon
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, put_parts, rule, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.label import Label, elided_text, literal
from ui.widgets.line_list import LineList, ListLine
from ui.widgets.panel_parts import ToneLabel, say, section_head, sentence

WIDTH = 344

Question = Callable[[], dict[str, Any]]
"""What an examiner is asked besides the choice: `other` and `settings`, as plain values."""

FOLDER = "folder"
OWN_CLIP = "CLIP tower: the checkpoint's own"


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
        self._themes = themes
        self._has_cuda: Callable[[], bool] = lambda: True
        self._examiner: Examiner | None = None
        self._question: Question = dict
        self._make_boxes()
        self._lay_out()
        self._fill()

    def _make_boxes(self) -> None:
        self.list = LineList(self._themes, most_lines=10)
        self.list.setAccessibleName("Models")
        self.list.picked.connect(self._pick)
        self.problem = sentence("bad")
        self.browse = _link("Browse a checkpoint folder…")
        self.browse.clicked.connect(self._browse)
        self.clip = _link("", self)
        self.clip.clicked.connect(self._browse_clip)
        self.no_clip = in_role(QToolButton(self), "quiet")
        self.no_clip.setFixedSize(2 * GRID, self.clip.sizeHint().height())
        self.no_clip.setStyleSheet("QToolButton { padding: 0; min-height: 0 }")
        self.no_clip.setIcon(icon("close", self._themes.theme))
        self.no_clip.setAccessibleName("Take the checkpoint's own CLIP tower")
        self.no_clip.setToolTip("Take the checkpoint's own")
        self.no_clip.clicked.connect(self._drop_clip)
        self._themes.changed.connect(self._restyle)
        self.boxes = {entry.key: self._box(entry) for entry in OF_MODEL if entry.is_per_role}
        self.facts = ModelFactsView(self._themes)

    def _box(self, entry: Setting) -> ChoiceBox:
        box, value = ChoiceBox(self._themes), getattr(self._choice, entry.key)
        for known, text in entry.choices:
            box.addItem(text, known)
        box.setToolTip(entry.sentence)
        box.setAccessibleName(entry.name.capitalize())
        box.setEditable(entry.is_free)
        if entry.is_free:
            box.setCurrentText(value)
            box.currentTextChanged.connect(lambda text: self._set(entry, text.strip() or entry.default))
        else:
            box.setCurrentIndex(max(box.findData(value), 0))
            box.currentIndexChanged.connect(lambda place: self._set(entry, box.itemData(place)))
        return box

    def _offer(self) -> None:
        """Greys what the machine cannot do with any use, with the reason; what is chosen already can be kept."""
        for key, box in self.boxes.items():
            items = box.model()
            if not isinstance(items, QStandardItemModel):
                continue
            # Told of a change, a box that can be written in would show its item instead of what was written.
            items.blockSignals(True)
            for place in range(box.count()):
                item, value = items.item(place), box.itemData(place)
                device, has_cuda = self._choice.device, self._has_cuda()
                reason = drawback_of(key, value, device, has_cuda=has_cuda)
                item.setToolTip(reason or remark_on(key, value, device, has_cuda=has_cuda))
                item.setEnabled(not reason or value == getattr(self._choice, key))
            items.blockSignals(False)

    def _lay_out(self) -> None:
        head = section_head(role_name(self._role))
        head.setContentsMargins(2 * GRID, 0, 2 * GRID, 0)
        lower = QGridLayout()
        lower.setContentsMargins(2 * GRID, 0, 2 * GRID, GRID)
        lower.setSpacing(GRID)
        lower.addWidget(self.problem, 0, 0, 1, 2)
        lower.addWidget(self.browse, 1, 0, 1, 2)
        if self._role == DRAFT:
            clip = beside(self.clip, None, self.no_clip, spacing=0)
            lower.addLayout(clip, 2, 0, 1, 2)
            put_parts(clip)
            self._show_clip()
        else:
            self.clip.hide()
            self.no_clip.hide()
        for row, box in enumerate(self.boxes.values(), start=3):
            label = in_role(Label(box.accessibleName()), "dim")
            label.setBuddy(box)
            lower.addWidget(label, row, 0)
            lower.addWidget(box, row, 1)
        lower.addWidget(self.facts, 3 + len(self.boxes), 0, 1, 2)
        lower.setColumnStretch(1, 1)
        self._rows = stacked(head, self.list, lower, on=self, margins=(0, GRID, 0, GRID), spacing=GRID)
        self.setFixedWidth(WIDTH)

    def offer_for(self, has_cuda: Callable[[], bool]) -> None:
        """From now on offers what the machine can do; `has_cuda` says whether it has a CUDA device, as far as known."""
        self._has_cuda = has_cuda

    def examine_with(self, examiner: Examiner | None, question: Question) -> None:
        """From now on says whether what is chosen fits; `question` adds the other model and the settings."""
        self._examiner, self._question = examiner, question
        if examiner is not None:
            examiner.answered.connect(lambda: self._look() if self.isVisible() else None)

    @property
    def choice(self) -> ModelChoice:
        return self._choice

    def open_below(self, widget: QWidget) -> None:
        self._fill()
        self._offer()
        self._look()
        self._fit()
        self.move(widget.mapToGlobal(QPoint(0, widget.height() + GRID // 2)))
        self.show()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        if self._examiner is not None:
            self._examiner.forget()

    def _look(self) -> None:
        """Asks about what is chosen, and shows the answer as soon as there is one."""
        if self._examiner is None:
            return
        asked = {"role": self._role, "model": self._choice.to_json(), **self._question()}
        answer = self._examiner.ask(asked)
        report = pending_report(is_held=self._examiner.is_held) if answer is None else model_report(answer)
        if self.facts.show_report(report):
            self._fit()

    def choose_folder(self, folder: str) -> None:
        try:
            family_of(folder, self._role)
        except UserError as error:
            say(self.problem, error.sentence)
            self._fit()
            return
        say(self.problem, "")
        self._recent.note_model(folder)
        self._take(replace(self._choice, name=folder))

    def choose_clip(self, folder: str) -> None:
        """Takes a CLIP folder for the event model's tower, or says why not."""
        problem = clip_problem(folder)
        say(self.problem, problem)
        if not problem:
            self._set_clip(folder)
        self._fit()

    def _fill(self) -> None:
        words = [family.word for family in FAMILIES.values() if family.role == self._role]
        bundled = BUNDLED_DRAFT if self._role == DRAFT else BUNDLED_TARGET
        offered = [(bundled, "bundled")]
        offered += [(f"random:{size}-{word}", "random weights") for size in ("160m", "7b") for word in words]
        names = {name for name, _ in offered}
        for folder in (self._choice.name, *self._recent.models):
            if folder not in names and self._fits(folder):
                offered.append((folder, FOLDER))
                names.add(folder)
        lines = [ListLine(name, input_name(name) if what == FOLDER else name, what, tip=name) for name, what in offered]
        self.list.show_lines(lines, self._choice.name)

    def _fit(self) -> None:
        """As high as its parts; a sentence that wraps needs more than Qt guesses."""
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

    def _browse_clip(self) -> None:
        folder = QFileDialog.getExistingDirectory(self.parentWidget(), "Choose a folder with a CLIP vision tower")
        if folder:
            self.choose_clip(folder)
            self.show()

    def _pick(self, name: object) -> None:
        self._take(replace(self._choice, name=str(name)))

    def _set(self, entry: Setting, value: Any) -> None:
        self._take(replace(self._choice, **{entry.key: value}))

    def _set_clip(self, folder: str | None) -> None:
        self._take(replace(self._choice, clip=folder))
        self._show_clip()

    def _drop_clip(self) -> None:
        self._set_clip(None)

    def _show_clip(self) -> None:
        clip = self._choice.clip
        text = OWN_CLIP if clip is None else f"CLIP tower: {clip}"
        room = WIDTH - 10 * GRID
        self.clip.setText(literal(elided_text(self.clip.fontMetrics(), text, Qt.TextElideMode.ElideMiddle, room)))
        self.clip.setToolTip("Choose a folder with a CLIP vision tower" if clip is None else clip)
        self.no_clip.setVisible(clip is not None)

    def _restyle(self) -> None:
        self.no_clip.setIcon(icon("close", self._themes.theme))

    def _take(self, choice: ModelChoice) -> None:
        if choice != self._choice:
            self._choice = choice
            self._offer()
            self.chosen.emit(choice)
            if self.isVisible():
                self._look()


class ModelFactsView(QWidget):
    """Shows what a checkpoint takes, and whether it fits; hidden until there is a report."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = FigureTable(themes)
        self.verdict = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.reason = sentence()
        self.problem = sentence("bad")
        self.report: ModelReport | None = None
        stacked(rule(), self.problem, self.table, self.verdict, self.reason, on=self, spacing=GRID // 2)
        self.hide()

    def show_report(self, report: ModelReport) -> bool:
        """Shows a report. True if it differs from the one before."""
        if report == self.report:
            return False
        self.report = report
        self.table.reset_widths()
        self.table.setVisible(bool(report.figures))
        self.table.show_rows(
            [TableRow(one.name, (one.text,), roles=(one.role,), tip=one.tip) for one in report.figures]
        )
        self.verdict.say(report.verdict, report.role)
        self.verdict.setVisible(bool(report.verdict))
        say(self.reason, report.reason)
        say(self.problem, report.problem)
        self.show()
        return True


def _link(text: str, parent: QWidget | None = None) -> QPushButton:
    return in_role(QPushButton(text, parent), "link")
