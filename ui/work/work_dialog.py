"""The form of long work: its fields, what it would measure, and the command that does the same."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from time import strftime

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QFileDialog, QLineEdit, QPushButton, QWidget

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.units import count_text
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.writers.frames import write_manifest
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from evprof.run.works.work_form import FILE, FLAG, FOLDER, ON, PLACE, WorkField, WorkForm, Works, WorkSize
from evprof.session.autosave import autosave_folder
from ui.state.newest_errand import NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.label import Label
from ui.widgets.panel_parts import ToneLabel, say, sentence, wrapped
from ui.widgets.text_dialogs import FreeDialog

BUNDLED = {DRAFT: BUNDLED_DRAFT, TARGET: BUNDLED_TARGET}
_MINUTE_S = 90.0
"""From here on a time is told in minutes."""

NAME_PX = 18 * GRID
_TOP_PX = 6
"""Above a name, so that it is level with the first line of its field."""

_WIDTH_PX = 680
_PAUSE_MS = 300
"""A size is asked for when nothing was typed for so long."""


def suite_form(
    form: WorkForm, suites: Sequence[tuple[str, str]], samples: Sequence[Sample], models: Mapping[str, ModelChoice]
) -> tuple[WorkForm, dict[str, str]]:
    """The form with suites and samples to choose from, and what it holds at first. The first of `samples` is open."""
    lists = [(listed(samples[:1]), f"the open sample: {samples[0].whole_name}")] if samples else []
    if len(samples) > 1:
        lists.append((listed(samples), f"all {count_text(len(samples), 'listed sample')}"))
    choices = {
        "suite": tuple((name, f"{name}: {title}") for name, title in suites),
        "data": (*(entry for entry in lists if entry[0]), ("", "the bundled samples")),
    }
    fields = tuple(replace(field, choices=choices.get(field.name, field.choices)) for field in form.fields)
    given = {role: "" if choice.name == BUNDLED[role] else choice.name for role, choice in models.items()}
    folder = Path.home() / "evprof" / strftime("suite-%Y%m%d-%H%M%S")
    return replace(form, fields=fields), {**given, "suite": "stages", "output": str(folder)}


def listed(samples: Sequence[Sample]) -> str:
    """The path of a list of these samples in the user's data folder; "" where it cannot be written."""
    name = hashlib.sha256(repr(samples).encode()).hexdigest()[:16]
    path = autosave_folder().with_name("lists") / f"{name}.csv"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(path, samples)
        return str(path)
    return ""


def time_sentence(counts: Mapping[str, int], values: Mapping[str, str], runs: Iterable[RunLog]) -> str:
    """About how long as many runs of each role take, by the finished runs of these models; "" without any count."""
    times: dict[str, list[float]] = {role: [] for role in counts}
    for run in runs:
        info, model = run.info, run.info.models.get(run.info.role)
        wanted = Path(values.get(info.role) or BUNDLED.get(info.role, "")).name
        is_alike = model is not None and model.name == wanted and info.status == FINISHED and not info.profiled
        if is_alike and info.role in times and info.start_ns is not None and info.end_ns is not None:
            times[info.role].append((info.end_ns - info.start_ns) / 1e9)
    if not counts:
        return ""
    if not all(times.values()):
        return "The time is not known: no run of these models in this session."
    seconds = sum(count * fmean(times[role]) for role, count in counts.items())
    told = f"{seconds / 60:.0f} minutes" if seconds >= _MINUTE_S else f"{max(1, round(seconds))} s"
    return f"About {told}, by {count_text(sum(map(len, times.values())), 'run')} of this session, without loading."


class WorkFieldRow(QWidget):
    """A field of a form.

    Signals:
        changed(): another value was given.
    """

    changed = Signal()

    def __init__(self, field: WorkField, themes: ThemeHolder) -> None:
        super().__init__()
        self.field = field
        is_flag = field.kind == FLAG
        name = Label("" if is_flag else field.title)
        name.setFixedWidth(NAME_PX)
        name.setAlignment(Qt.AlignmentFlag.AlignTop)
        name.setContentsMargins(0, _TOP_PX, 0, 0)
        self.editor = self._make_editor(themes)
        self.editor.setAccessibleName(field.title)
        self.editor.setAccessibleDescription(field.help)
        name.setBuddy(self.editor)
        is_told = field.help and not isinstance(self.editor, QLineEdit)
        right = stacked(self._with_browser(), *([wrapped(field.help, "small")] if is_told else []), spacing=2)
        beside(name, (right, 1), on=self, spacing=GRID)

    def _make_editor(self, themes: ThemeHolder) -> QWidget:
        field = self.field
        if field.kind == FLAG:
            box = QCheckBox(field.title)
            box.toggled.connect(self.changed)
            return box
        if field.choices:
            choice = ChoiceBox(themes)
            choice.setEditable(field.kind == FILE)
            for value, text in field.choices:
                choice.addItem(text, value)
            choice.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            choice.currentTextChanged.connect(self.changed)
            return choice
        line = QLineEdit()
        line.setPlaceholderText(field.help)
        line.textChanged.connect(self.changed)
        return line

    def _with_browser(self) -> QWidget:
        if self.field.kind not in (FILE, FOLDER, PLACE):
            return self.editor
        browse = QPushButton("Choose…")
        browse.setAccessibleName(f"Choose: {self.field.title}")
        browse.clicked.connect(self._browse)
        both = QWidget()
        beside((self.editor, 1), browse, on=both, spacing=GRID)
        return both

    def _browse(self) -> None:
        start = str(Path(self.value).parent) if self.value else ""
        title = self.field.title
        if self.field.kind == FOLDER:
            found = QFileDialog.getExistingDirectory(self, title, start)
        elif self.field.kind == PLACE:
            found, _ = QFileDialog.getSaveFileName(self, title, start, options=QFileDialog.Option.DontConfirmOverwrite)
        else:
            found, _ = QFileDialog.getOpenFileName(self, title, start)
        if found:
            self.give(found)

    @property
    def value(self) -> str:
        """What was given; "" for nothing."""
        editor = self.editor
        if isinstance(editor, QCheckBox):
            return ON if editor.isChecked() else ""
        if isinstance(editor, ChoiceBox):
            texts = {text: value for value, text in self.field.choices}
            return texts.get(editor.currentText(), editor.currentText())
        return editor.text() if isinstance(editor, QLineEdit) else ""

    def give(self, value: str) -> None:
        editor = self.editor
        if isinstance(editor, QCheckBox):
            editor.setChecked(value == ON)
        elif isinstance(editor, ChoiceBox):
            editor.setCurrentText(dict(self.field.choices).get(value, value))
            if (words := editor.lineEdit()) is not None:
                words.setCursorPosition(0)
        elif isinstance(editor, QLineEdit):
            editor.setText(value)


class WorkDialog(FreeDialog):
    """The form of one kind of work. `start` takes the values once they are valid.

    `runs` are those by which the time of a suite is estimated.
    """

    def __init__(
        self,
        form: WorkForm,
        works: Works,
        start: Callable[[Mapping[str, str]], object],
        themes: ThemeHolder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(form.title, parent)
        self.form = form
        self.runs: Mapping[int, RunLog] = {}
        self._works, self._start = works, start
        self.rows = {field.name: WorkFieldRow(field, themes) for field in form.fields}
        self.size_line = sentence("")
        self._sizing = NewestErrand("evprof-suite-size", self)
        self._sizing.done.connect(self._show_size)
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.timeout.connect(self._ask_size)
        self.problem = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft)
        self.command = wrapped("", "small")
        self.command.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.start_button = in_role(QPushButton("Start"), "primary")
        self.start_button.setDefault(True)
        self.start_button.clicked.connect(self.start)
        ground = in_role(QWidget(), "panel")
        ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        stacked(*self.rows.values(), on=ground, margins=(2 * GRID, GRID, 2 * GRID, GRID), spacing=GRID + 4)
        below = beside((self.command, 1), self.start_button, spacing=2 * GRID)
        parts = (wrapped(form.text, "dim"), ground, self.size_line, self.problem, None, below)
        stacked(*parts, on=self, margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID), spacing=GRID)
        for row in self.rows.values():
            row.changed.connect(self._show_command)
        self._show_command()
        self.resize(_WIDTH_PX, self.sizeHint().height())

    @property
    def values(self) -> dict[str, str]:
        return {name: row.value for name, row in self.rows.items()}

    def _show_command(self) -> None:
        self.command.setText(f"evprof {shlex.join(self.form.argv(self.values))}")
        self.problem.say("", "bad")
        if self.form.is_sized:
            self._pause.start(_PAUSE_MS)

    def _ask_size(self) -> None:
        self._sizing.ask(partial(self._works.size, self.form.argv(self.values)))

    def _show_size(self, size: object) -> None:
        if isinstance(size, WorkSize):
            time_told = time_sentence(size.runs, self.values, self.runs.values())
            say(self.size_line, f"{size.sentence} {time_told}".strip())

    def start(self) -> None:
        values = self.values
        missing = self.form.missing(values)
        if missing:
            named = " and ".join(field.title.lower() for field in missing)
            self.problem.say(f"Please choose: {named}.", "bad")
            self.rows[missing[0].name].editor.setFocus()
            return
        if problem := self._works.check(self.form.argv(values)):
            field, told = self.form.in_its_words(problem)
            self.problem.say(told, "bad")
            if field is not None:
                self.rows[field.name].editor.setFocus()
            return
        self._start(values)
        self.close()

    def done(self, result: int) -> None:
        self._sizing.wait()
        super().done(result)
