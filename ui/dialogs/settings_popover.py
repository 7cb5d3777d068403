"""The popover with the settings that matter less often: drafted tokens, sampling, frames, repeats."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDoubleSpinBox, QFrame, QGridLayout, QLabel, QSpinBox, QWidget

from evprof.core.request import GenerationSettings
from ui.theme import GRID
from ui.views.panel_parts import section_head

_OWN = "model's own"


class SettingsPopover(QFrame):
    """Opens below its button and closes when a click falls outside.

    Signals:
        changed(): a setting, the warm-up or the repetitions changed.
    """

    changed = Signal()

    def __init__(self, settings: GenerationSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setProperty("role", "card")
        self._settings = settings
        self.gamma = _whole(settings.gamma, 1, 64)
        self.event_frames = _whole(settings.event_frames or 0, 0, 64, _OWN)
        self.frames = _whole(settings.frames or 0, 0, 256, _OWN)
        self.temperature = QDoubleSpinBox()
        self.temperature.setRange(0.0, 5.0)
        self.temperature.setSingleStep(0.1)
        self.temperature.setSpecialValueText("greedy")
        self.temperature.setValue(settings.temperature)
        self.seed = _whole(settings.seed, 0, 2**31 - 1)
        self.ignore_eos = QCheckBox("go on after end of sequence")
        self.ignore_eos.setChecked(settings.ignore_eos)
        self.warmup = _whole(0, 0, 20)
        self.repeat = _whole(1, 1, 100)
        grid = QGridLayout(self)
        grid.setContentsMargins(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID)
        grid.setHorizontalSpacing(2 * GRID)
        grid.setVerticalSpacing(GRID)
        row = 0
        for head, entries in (
            ("Speculation", (("drafted tokens γ", self.gamma),)),
            ("Input", (("event frames", self.event_frames), ("video frames", self.frames))),
            ("Sampling", (("temperature", self.temperature), ("seed", self.seed))),
            ("Measuring", (("warm-up runs", self.warmup), ("repetitions", self.repeat))),
        ):
            grid.addWidget(section_head(head), row, 0, 1, 2)
            row += 1
            for name, box in entries:
                label = QLabel(name)
                label.setProperty("role", "dim")
                label.setBuddy(box)
                box.setAccessibleName(name)
                box.setFixedWidth(112)
                box.valueChanged.connect(self._note)
                grid.addWidget(label, row, 0)
                grid.addWidget(box, row, 1)
                row += 1
        grid.addWidget(self.ignore_eos, row, 0, 1, 2)
        self.ignore_eos.toggled.connect(self._note)

    def settings(self, max_new_tokens: int) -> GenerationSettings:
        """The settings as they stand, for answers of at most `max_new_tokens`."""
        return replace(
            self._settings,
            max_new_tokens=max_new_tokens,
            gamma=self.gamma.value(),
            event_frames=self.event_frames.value() or None,
            frames=self.frames.value() or None,
            temperature=self.temperature.value(),
            seed=self.seed.value(),
            ignore_eos=self.ignore_eos.isChecked(),
        )

    def open_below(self, widget: QWidget) -> None:
        """Shows itself under its button, its right end at the button's."""
        self.adjustSize()
        self.move(widget.mapToGlobal(QPoint(widget.width() - self.width(), widget.height() + GRID // 2)))
        self.show()

    def _note(self, *_: object) -> None:
        self.changed.emit()


def _whole(value: int, least: int, most: int, zero: str = "") -> QSpinBox:
    box = QSpinBox()
    box.setRange(least, most)
    box.setSpecialValueText(zero)
    box.setValue(value)
    return box
