"""A lane of nested slices of one thread or stream of a torch trace, and the colours of slices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from evprof.core.records import STAGES
from evprof.core.rows.blocks import Ints
from evprof.core.rows.trace_columns import NONE
from evprof.core.units import bytes_text
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
from evprof.view.decimate import Floats, span_coverage
from evprof.view.timescale import Timescale, time_text
from evprof.view.trace_rows import NestedRow, TraceLane
from ui.state.selection import TimeRange
from ui.style.theme import Theme
from ui.timeline.lane import FOLDED_PX, Lane, blended, paint_row, palette_of, pixels_per_px
from ui.timeline.scene import Hit, TimelineScene
from ui.widgets.label import elided_text

if TYPE_CHECKING:
    from evprof.metrics.traces.analysis import TraceAnalysis

_STRENGTH = {OPERATOR: 0.42, PYTHON: 0.42, RUNTIME: 0.22, FUNCTION: 0.14, STEP: 0.3}
"""How much of its colour a slice has over the ground; all others have all of it."""

_FULL = 0.85
_ROLES = 16
ROW_PX, BAR_PX, TOP_PX = 17, 15, 5
_LEAST_PX, _SHORT_PX, _LABEL_PX = 44, 36, 10.5
_LONGEST_TITLE = 80


class SliceLook(NamedTuple):
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
        return int(self.roles[at]) in DEVICE_WORK

    @cached_property
    def _facts_at(self) -> Ints:
        """For each slice its place among the device columns, NONE for the host's."""
        found = np.full(len(self.kinds), NONE, dtype=np.int64)
        found[self.analysis.trace.device.rows] = np.arange(len(self.analysis.trace.device.rows))
        return found

    def name(self, at: int) -> str:
        trace = self.analysis.trace
        return trace.text(int(trace.slices.names[at]))

    def facts(self, at: int) -> list[tuple[str, str]]:
        trace = self.analysis.trace
        slices, device = trace.slices, trace.device
        found = [
            ("start", time_text(int(slices.starts[at]) - self.analysis.start_ns)),
            ("duration", time_text(int(slices.durations[at]))),
            ("category", trace.text(int(slices.categories[at]))),
            ("input shapes", trace.text(int(slices.shapes[at]))),
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


@dataclass(frozen=True)
class SliceHit(Hit):
    """A slice of the trace under the pointer: its place there."""

    slice: int = -1


def shortened(text: str, most: int) -> str:
    """At most so many letters; kernels' names are as long as their templates."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


class SliceLane(Lane):
    """Outermost calls above. `offset_ns` moves the trace's clock onto the scene's."""

    lane_height_px = _LEAST_PX

    def __init__(self, scene: TimelineScene, *, name: tuple[str, str], key: str) -> None:
        super().__init__(scene)
        self.lane: TraceLane | None = None
        self.looks: SliceLooks | None = None
        self.offset_ns = 0
        self.chosen: int | None = None
        self._name, self._key = name, key
        self.setAccessibleName(" ".join(filter(None, name)))

    def show_lane(self, lane: TraceLane | None, looks: SliceLooks | None, offset_ns: int = 0) -> None:
        self.lane, self.looks, self.offset_ns = lane, looks, offset_ns
        rows = 0 if lane is None else len(lane.rows)
        self.lane_height_px = max(_LEAST_PX, 2 * TOP_PX + ROW_PX * rows)
        self.setMinimumHeight(FOLDED_PX if self.is_folded else self.lane_height_px)
        self.updateGeometry()
        self.refresh()

    @property
    def key(self) -> str:
        return self._key

    def names(self) -> tuple[str, str]:
        return self._name

    @property
    def _scale(self) -> Timescale:
        scale = self.scene.scale
        return Timescale(scale.start_ns - self.offset_ns, scale.end_ns - self.offset_ns, scale.width_px)

    def paint_canvas(self, painter: QPainter) -> None:
        if self.lane is None or self.looks is None:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for at, row in enumerate(self.lane.rows):
            self._paint_row(painter, row, self.looks, TOP_PX + ROW_PX * at)
        self._paint_chosen(painter)

    def _paint_row(self, painter: QPainter, row: NestedRow, known: SliceLooks, top: int) -> None:
        theme, per_px = self.scene.theme, pixels_per_px(painter)
        columns, palette = math.ceil(self.canvas_width * per_px), known.palette(theme)
        intervals = row.starts, row.ends, known.shades[row.slices]
        covered = span_coverage(intervals, len(palette), self._scale, columns, per_px)
        room = QRectF(0, top, self.canvas_width, BAR_PX)
        paint_row(painter, np.einsum("ck,kx->cx", covered.shares, palette), room)
        painter.setFont(theme.font(_LABEL_PX, 500))
        metrics = QFontMetricsF(painter.font())
        for place, left, right in zip(*(part.tolist() for part in covered[1:]), strict=True):
            box = QRectF(left, top, right - left, BAR_PX).intersected(room)
            if box.width() > _SHORT_PX:
                at = int(row.slices[place])
                painter.setPen(known.look(int(known.kinds[at]), theme).ink)
                text = elided_text(metrics, known.name(at), Qt.TextElideMode.ElideRight, box.width() - 8)
                painter.drawText(box.adjusted(4, -0.5, 0, 0), Qt.AlignmentFlag.AlignVCenter, text)

    def _paint_chosen(self, painter: QPainter) -> None:
        box = None if self.chosen is None else self.box_of(self.chosen)
        if box is not None:
            painter.setPen(QPen(self.scene.theme.text, 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(-1, -1, 1, 1))

    def hit(self, pos: QPointF) -> Hit | None:
        at = int((pos.y() - TOP_PX) // ROW_PX)
        if self.lane is None or self.looks is None or not 0 <= at < len(self.lane.rows):
            return None
        found = self.lane.rows[at].at(self._scale.t(pos.x()), 1.5 * self.scene.scale.ns_per_px)
        if found is None:
            return None
        slices = self.looks.analysis.trace.slices
        start = int(slices.starts[found]) + self.offset_ns
        return SliceHit(
            title=shortened(self.looks.name(found), _LONGEST_TITLE),
            color=self.looks.look(int(self.looks.kinds[found]), self.scene.theme).ground,
            facts=[(name, shortened(text, _LONGEST_TITLE)) for name, text in self.looks.facts(found)],
            range=TimeRange(start, start + int(slices.durations[found])),
            slice=found,
        )

    def box_of(self, slice_place: int) -> QRectF | None:
        """Where a slice of this lane lies, in the lane's coordinates right of the gutter; None of another's."""
        at = None if self.lane is None else self.lane.row_of(slice_place)
        if at is None or self.looks is None or self.is_folded:
            return None
        slices, scale = self.looks.analysis.trace.slices, self._scale
        x0 = scale.x(int(slices.starts[slice_place]))
        x1 = scale.x(int(slices.starts[slice_place] + slices.durations[slice_place]))
        return QRectF(x0, TOP_PX + ROW_PX * at, max(1.0, x1 - x0), BAR_PX)
