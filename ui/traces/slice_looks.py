"""What slices of a trace look like: in the colour of the stage that they belong to, told apart by strength."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QColor

from evprof.core.records import STAGES
from evprof.core.rows.distinct import Ints
from evprof.core.rows.trace_columns import NONE
from evprof.core.units import bytes_text
from evprof.metrics.traces.analysis import TraceAnalysis
from evprof.metrics.traces.roles import (
    ANNOTATION,
    DEVICE_WORK,
    FUNCTION,
    OPERATOR,
    PYTHON,
    RUNTIME,
    STEP,
    slice_roles,
)
from evprof.view.decimate import Floats
from evprof.view.timescale import time_text
from ui.style.theme import Theme
from ui.timeline.dense_painting import palette_of
from ui.timeline.lane import blended

_STRENGTH = {OPERATOR: 0.42, PYTHON: 0.42, RUNTIME: 0.22, FUNCTION: 0.14, STEP: 0.3}
"""How much of its colour a slice has over the ground; all others have all of it."""

_FULL = 0.85
_ROLES = 16


class SliceLook(NamedTuple):
    """The ground of a slice and what is written on it."""

    ground: QColor
    ink: QColor


class SliceLooks:
    """The looks of one trace's slices; `kinds` is a code per slice, `look` what a code looks like."""

    def __init__(self, analysis: TraceAnalysis) -> None:
        self.analysis = analysis
        trace = analysis.trace
        self.roles = slice_roles(trace.texts, trace.slices.categories, trace.slices.names).astype(np.int64)
        stages = np.full(len(trace.slices), len(STAGES), dtype=np.int64)
        on_device = np.isin(self.roles, DEVICE_WORK)
        for stage in analysis.stages:
            code = STAGES.index(stage.name)
            starts = trace.slices.starts
            stages[(starts >= stage.start_ns) & (starts < stage.end_ns) & ~on_device] = code
            stages[analysis.launched.rows[stage.work]] = code
        self.kinds: Ints = stages * _ROLES + self.roles
        known, self.shades = np.unique(self.kinds, return_inverse=True)
        self._shown_kinds: list[int] = known.tolist()
        self.is_function: npt.NDArray[np.bool_] = self.roles == FUNCTION

    def look(self, kind: int, theme: Theme) -> SliceLook:
        """Steps and other programs' slices are grey and blue: stages have their colours alone."""
        stage, role = divmod(kind, _ROLES)
        if stage < len(STAGES):
            color = theme.stage(STAGES[stage])
        else:
            color = theme.text_dim if role in (STEP, ANNOTATION, RUNTIME, FUNCTION) else theme.accent
        ground = blended(theme.panel, color, _STRENGTH.get(role, _FULL))
        return SliceLook(ground, theme.ink(ground))

    def palette(self, theme: Theme) -> Floats:
        """The grounds by `shades`, as `paint_row` takes them."""
        return palette_of([self.look(kind, theme).ground for kind in self._shown_kinds])

    def is_on_device(self, at: int) -> bool:
        """Whether a slice is work of a device."""
        return int(self.roles[at]) in DEVICE_WORK

    @cached_property
    def _facts_at(self) -> Ints:
        """For each slice its place among the device columns, NONE for the host's."""
        found = np.full(len(self.kinds), NONE, dtype=np.int64)
        found[self.analysis.trace.device.rows] = np.arange(len(self.analysis.trace.device.rows))
        return found

    def name(self, at: int) -> str:
        """A slice's name."""
        trace = self.analysis.trace
        return trace.text(int(trace.slices.names[at]))

    def facts(self, at: int) -> list[tuple[str, str]]:
        """What is known of a slice, for cards and tables."""
        trace = self.analysis.trace
        slices, device = trace.slices, trace.device
        found = [
            ("start", time_text(int(slices.starts[at]) - self.analysis.start_ns)),
            ("duration", time_text(int(slices.durations[at]))),
            ("category", trace.text(int(slices.categories[at]))),
            ("input shapes", trace.text(int(slices.shapes[at]))),
            ("call stack", trace.text(int(slices.stacks[at])).replace(";", "\n")),
        ]
        if (place := int(self._facts_at[at])) >= 0:
            found += [
                ("grid", trace.text(int(device.grids[place]))),
                ("block", trace.text(int(device.blocks[place]))),
                ("registers", _known(int(device.registers[place]))),
                ("shared memory", _known(int(device.shared_memory[place]))),
                ("occupancy", _share(float(device.occupancies[place]))),
                ("blocks per SM", _share(float(device.blocks_per_sm[place]), "")),
                ("bytes", bytes_text(int(device.bytes[place])) if device.bytes[place] > 0 else ""),
            ]
        return [(name, text) for name, text in found if text]

    def partners(self, at: int) -> Ints:
        """What a runtime call launched, or the call that launched a kernel."""
        launched = self.analysis.launched
        if self.is_on_device(at):
            found = launched.calls[launched.rows == at]
            return np.asarray(found[found >= 0], dtype=np.int64)
        return np.asarray(launched.rows[launched.calls == at], dtype=np.int64)


def _known(value: int) -> str:
    return "" if value == NONE else f"{value:,}"


def _share(value: float, unit: str = " %") -> str:
    return "" if np.isnan(value) else f"{value:g}{unit}"
