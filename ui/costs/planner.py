"""The capacity planner: a slider for memory, a choice for what the cache keeps, and what would fit."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSlider, QWidget

from evprof.core.units import GIB, memory_text
from evprof.metrics.costs.capacity_plan import (
    KINDS,
    MemoryPlan,
    PlannedModel,
    assumptions,
    plan,
    published_models,
    together_bytes,
)
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.choice_box import ChoiceBox
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.label import Label
from ui.widgets.panel_parts import say, sentence

SIZES_GIB = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192, 256)
"""Where the slider stops: what cards have."""

_FIRST_GIB = 24
_WORDS = {KINDS[0]: "KV as computed", "fp8": "KV in fp8", "hqq8": "KV in hqq 8 bit", "hqq4": "KV in hqq 4 bit"}
_HEADS = ("needs", "positions", "frames", "in context")


class CapacityPlanner(QWidget):
    """Shown models first, then the families' published ones."""

    def __init__(self, themes: ThemeHolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._models: tuple[PlannedModel, ...] = ()
        self._published = tuple(published_models())
        self._is_suggested = False
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, len(SIZES_GIB) - 1)
        self.slider.setValue(SIZES_GIB.index(_FIRST_GIB))
        self.slider.setPageStep(3)
        self.slider.setAccessibleName("Memory")
        self.slider.setToolTip("Memory of the device that is planned for")
        self.size_label = Label()
        self.size_label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.size_label.setMinimumWidth(64)
        self.kind = ChoiceBox(themes)
        self.kind.setAccessibleName("What the cache keeps")
        for key, words in _WORDS.items():
            self.kind.addItem(words, key)
        self.table = FigureTable(themes)
        self.table.setAccessibleName("What fits")
        self.told = sentence("small")
        name = in_role(Label("memory"), "dim")
        name.setBuddy(self.slider)
        stacked(
            beside(name, (self.slider, 1), self.size_label, self.kind, spacing=GRID),
            self.table,
            self.told,
            on=self,
            spacing=GRID // 2,
        )
        self.slider.valueChanged.connect(self._show)
        self.kind.currentIndexChanged.connect(self._show)
        self._show()

    @property
    def memory_bytes(self) -> int:
        """What the slider says."""
        return SIZES_GIB[self.slider.value()] * GIB

    def show_models(self, models: Sequence[PlannedModel]) -> None:
        """Plans for these models beside the published ones."""
        if tuple(models) != self._models:
            self._models = tuple(models)
            self.table.reset_widths()
            self._show()

    def suggest(self, memory_bytes: object) -> None:
        """Begins with the memory of the device that runs were made on, where that is known."""
        if self._is_suggested or not isinstance(memory_bytes, int) or memory_bytes <= 0:
            return
        self._is_suggested = True
        nearest = min(range(len(SIZES_GIB)), key=lambda place: abs(SIZES_GIB[place] * GIB - memory_bytes))
        self.slider.setValue(nearest)

    def plans(self) -> list[MemoryPlan]:
        """What is shown, row by row."""
        kind = str(self.kind.currentData())
        return [plan(model, self.memory_bytes, kind) for model in (*self._models, *self._published)]

    def _show(self, *_: object) -> None:
        self.size_label.setText(f"{SIZES_GIB[self.slider.value()]} GiB")
        plans = self.plans()
        rows = [_row(each) for each in plans]
        if len(self._models) > 1:
            both = together_bytes(plans[: len(self._models)])
            fits = both <= self.memory_bytes
            rows.insert(
                len(self._models),
                TableRow(
                    "both at once",
                    (memory_text(both), "fit" if fits else "do not fit", "", ""),
                    roles=("good" if fits else "bad", "good" if fits else "bad"),
                    tip="What both shown models take when they are loaded together, each with its own run.",
                ),
            )
        self.table.show_rows(rows, _HEADS)
        say(self.told, " ".join(assumptions([each.model for each in plans])))


def _row(found: MemoryPlan) -> TableRow:
    model = found.model
    frames = "–" if found.most_frames is None else _count(found.most_frames)
    positions = _count(found.most_positions)
    if not found.most_positions:
        positions = frames = "none"
    trained = model.frames_in_context
    return TableRow(
        model.name,
        (memory_text(found.needed_bytes), positions, frames, "–" if trained is None else _count(trained)),
        unit=model.dtype,
        roles=(
            "good" if found.fits else "bad",
            "",
            "" if found.most_frames else "bad",
            "warn" if trained is not None and trained < model.frames else "dim",
        ),
        tip=f"Needs {memory_text(found.needed_bytes)} for {model.frames} frames and an answer of {model.answer} tokens"
        f" ({model.positions(model.frames):,} positions), {memory_text(model.weight_bytes)} of them weights.\n"
        "Positions, frames: the most that this memory holds.\n"
        f"In context: the most frames within the {model.context_limit:,} positions it was trained for; beyond them "
        "times hold and texts do not.",
        has_line=False,
    )


def _count(value: int) -> str:
    """Five digits at most: `16,173`, `136 k`, `2.01 M`."""
    if value < 100_000:
        return f"{value:,}"
    return f"{value / 1e6:.2f} M" if value >= 1_000_000 else f"{value / 1000:.0f} k"
