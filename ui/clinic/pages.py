"""Pages of the acceptance clinic: the definitions with their counts, and each round's first rejection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QTableWidget, QTableWidgetItem, QWidget

from evprof.core.run_log import RunLog
from evprof.core.units import percent_text
from evprof.metrics.speculation.clinic import Definition
from evprof.metrics.speculation.failure_modes import CONTENT, KINDS, SHIFTED, SURFACE, Rejection, counts
from ui.run_facts.figures import NOTHING
from ui.run_facts.run_text import chance_text, judgement_of, piece_text, run_title
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.panel_parts import WordSwitch, say, sentence

if TYPE_CHECKING:
    from evprof.metrics.speculation.clinic import Definition, PlaceAcceptance
    from evprof.metrics.speculation.failure_modes import Rejection
    from evprof.metrics.speculation.payoff import Prediction


KIND_WORDS = dict(zip(KINDS, ("shifted", "surface variant", "content"), strict=True))
"""Kinds of rejections as people read them."""

KIND_TIPS = dict(
    zip(
        KINDS,
        (
            "The draft says the same a few words earlier or later.",
            "The same word but for case, spaces, punctuation or ending.",
            "Another word: the draft sees something else.",
        ),
        strict=True,
    )
)
"""What a kind means, in a sentence."""


@dataclass(frozen=True)
class Clinic:
    """Figures of a run; those over rounds are of all its repeats, equal answers counted once. The list of rejections is
    the run's alone. `judgement` is how `sentence` is meant. `against` names the plain runs that it is weighed against,
    "" without any."""

    run: RunLog
    runs: tuple[RunLog, ...]
    definitions: tuple[Definition, ...]
    positions: tuple[PlaceAcceptance, ...]
    histogram: dict[int, int]
    rejections: tuple[Rejection, ...]
    prediction: Prediction | None
    sentence: str
    judgement: str
    best: str = ""
    against: str = ""

    @property
    def title(self) -> str:
        """Which run, and over how many repeats."""
        from evprof.metrics.configurations.settings_text import run_label

        more = f"{len(self.runs)} repeats taken together" if len(self.runs) > 1 else ""
        return " · ".join(filter(None, (run_title(self.run), run_label([self.run]), more)))


def key_of(run: RunLog | None, others: Sequence[RunLog]) -> object:
    """Changes when anything does that figures of a run follow from."""
    return None if run is None else (id(run), run.version, len(others), sum(other.info.is_over for other in others))


def clinic_of(run: RunLog, others: Sequence[RunLog]) -> Clinic:
    """Everything of a run, with the other runs of its session to weigh it against."""
    from evprof.metrics.configurations.baselines import baseline_of, repeats_of
    from evprof.metrics.speculation.clinic import definitions_over, per_position, plain_answer, round_histogram
    from evprof.metrics.speculation.failure_modes import first_rejections
    from evprof.metrics.speculation.outcome import distinct_answers
    from evprof.metrics.speculation.payoff import payoff_of, prediction_of
    from evprof.metrics.speculation.verdicts import speculation_sentence
    from evprof.metrics.speculation.widths import measured_widths, width_sentence

    runs = repeats_of(run, others)
    if run not in runs:
        runs = [run]
    distinct = distinct_answers(runs)
    pairs = [(entry, plain_answer(entry, others)) for entry in distinct]
    return Clinic(
        run,
        tuple(runs),
        tuple(definitions_over(pairs)),
        tuple(per_position(*distinct)),
        round_histogram(*distinct),
        tuple(first_rejections(run)),
        prediction_of(run, others),
        speculation_sentence(run, others),
        judgement_of(run, payoff_of(run, others)),
        width_sentence(measured_widths(run, others)),
        "" if (baseline := baseline_of(run, others)) is None else baseline.words,
    )


def value_text(definition: Definition) -> str:
    """`21.4 %` of a share, `1.43` tokens; a dash where nothing was counted."""
    from evprof.metrics.speculation.clinic import SHARE

    value = definition.value
    if value is None:
        return NOTHING
    return percent_text(value, 1) if definition.unit == SHARE else f"{value:.2f}"


def counts_text(definition: Definition) -> str:
    """`12 / 57`; a dash where nothing was counted."""
    if definition.numerator is None or not definition.denominator:
        return NOTHING
    return f"{_count(definition.numerator)} / {_count(definition.denominator)}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


_DEFINITION_HEADS = ("Figure", "Formula", "Counts", "Value")
DIFFERENT_COUNTS = "These figures divide different counts: do not compare them with each other."

_ALL = "all"
_Index = QModelIndex | QPersistentModelIndex

_HEADS = ("round", "place", "draft", "p of draft", "p of target", "target instead", "p of target", "kind")
_TIPS = (
    "Number of the round.",
    "Place among the answer's tokens.",
    "The token that was drafted.",
    "What the draft gave its own token.",
    "What the target gave the draft's token.",
    "The token that the target took instead.",
    "What the target gave its own token.",
    "What sets the two apart, by their text.",
)
_NUMBERS = frozenset((0, 1, 3, 4, 6))

_NONE = "No draft was rejected: every drafted token stands in the answer."
_NONE_OF_TREES = "No round was cut short: of every tree one branch stands in the answer to its end."
_TEACHES = "The first rejection of every round appears here as soon as a round is verified."
_HOW = "Choose a line to see its round in the timeline and its place in the text."


def _alignment(is_left: bool) -> Qt.AlignmentFlag:
    side = Qt.AlignmentFlag.AlignLeft if is_left else Qt.AlignmentFlag.AlignRight
    return side | Qt.AlignmentFlag.AlignVCenter


class DefinitionsPage(QWidget):
    """A row for each figure: the name, the formula with a note, both counts, and the value."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = QTableWidget(0, len(_DEFINITION_HEADS))
        self.list.setHorizontalHeaderLabels(list(_DEFINITION_HEADS))
        self.list.setAccessibleName("Definitions of acceptance")
        self.list.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.list.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.list.setShowGrid(False)
        self.list.verticalHeader().hide()
        self.list.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head = self.list.horizontalHeader()
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        self.warning = sentence("warn-bar")
        self.warning.setAccessibleName("Warning")
        stacked(self.warning, (self.list, 1), on=self, margins=(0, GRID, 0, 0), spacing=GRID)
        self.show_definitions(())

    def show_definitions(self, definitions: Sequence[Definition]) -> None:
        """Shows other figures, with a warning where there is more than one."""
        self.list.setRowCount(len(definitions))
        for row, entry in enumerate(definitions):
            note = f"\n{entry.note[:1].upper()}{entry.note[1:]}." if entry.note else ""
            texts = (entry.name, f"{entry.formula}{note}", counts_text(entry), value_text(entry))
            for column, text in enumerate(texts):
                item = QTableWidgetItem(text)
                item.setTextAlignment(_alignment(column < 2))
                self.list.setItem(row, column, item)
        say(self.warning, DIFFERENT_COUNTS if len(definitions) > 1 else "")


class RejectionModel(QAbstractTableModel):
    """The lines of the table."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self.rows: list[Rejection] = []

    def show_rows(self, rows: Sequence[Rejection]) -> None:
        """Shows other lines."""
        self.beginResetModel()
        self.rows = list(rows)
        self.endResetModel()

    def rowCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: _Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(_HEADS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _HEADS[section]
        if role == Qt.ItemDataRole.ToolTipRole:
            return _TIPS[section]
        return _alignment(section not in _NUMBERS) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        entry, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return _cells(entry)[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"ids {entry.draft_id} and {entry.target_id}\n{KIND_TIPS[entry.kind]}"
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column not in _NUMBERS)
        if role == Qt.ItemDataRole.ForegroundRole and column in (2, 5):
            return self._themes.theme.bad if column == 2 else self._themes.theme.good
        return None


def _cells(entry: Rejection) -> tuple[str, ...]:
    return (
        str(entry.round_index + 1),
        str(entry.position),
        piece_text(entry.draft_piece),
        chance_text(entry.draft_chance),
        chance_text(entry.cross_chance),
        piece_text(entry.target_piece),
        chance_text(entry.target_chance),
        KIND_WORDS[entry.kind],
    )


class FailuresPage(QWidget):
    """Counts by kind as a switch, below them the list.

    Signals:
        round_chosen(object): the Rejection whose line was chosen.
    """

    round_chosen = Signal(object)

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rejections: tuple[Rejection, ...] = ()
        self.kinds = WordSwitch([(_ALL, "all 0"), *((kind, f"{KIND_WORDS[kind]} 0") for kind in KINDS)])
        for kind in KINDS:
            self.kinds.tell(kind, KIND_TIPS[kind])
        self.model = RejectionModel(themes, self)
        self.table = QTableView()
        self.table.setModel(self.model)
        self.table.setAccessibleName("First rejections")
        self.table.setShowGrid(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(3 * GRID)
        head = self.table.horizontalHeader()
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        head.setHighlightSections(False)
        for column in (2, 5):
            head.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        self.caption = sentence("small")
        column_box = stacked(
            self.kinds, self.caption, (self.table, 1), on=self, margins=(0, 2 * GRID, 0, 0), spacing=GRID
        )
        column_box.addStretch(0)
        self.kinds.chosen.connect(self._fill)
        self.table.selectionModel().currentRowChanged.connect(self._choose)
        self.table.clicked.connect(self._choose)
        self.show_rejections(())

    def show_rejections(
        self, rejections: Sequence[Rejection], *, has_rounds: bool = False, has_trees: bool = False
    ) -> None:
        """Shows other rejections; `has_rounds` tells a run without failures from one without rounds."""
        changed = tuple(rejections) != self._rejections
        self._rejections = tuple(rejections)
        counted = counts(self._rejections)
        self.kinds.rename(_ALL, f"all {len(self._rejections)}")
        for kind in (SHIFTED, SURFACE, CONTENT):
            self.kinds.rename(kind, f"{KIND_WORDS[kind]} {counted[kind]}")
        if changed:
            self._fill()
        none = _NONE_OF_TREES if has_trees else _NONE
        say(self.caption, _HOW if self._rejections else none if has_rounds else _TEACHES)
        self.table.setVisible(bool(self._rejections))
        self.kinds.setVisible(bool(self._rejections))

    def _fill(self, *_: object) -> None:
        kind = self.kinds.key
        self.model.show_rows([entry for entry in self._rejections if kind in (_ALL, entry.kind)])

    def _choose(self, index: QModelIndex, *_: object) -> None:
        if 0 <= index.row() < len(self.model.rows):
            self.round_chosen.emit(self.model.rows[index.row()])
