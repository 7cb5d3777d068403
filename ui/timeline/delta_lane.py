"""Where the stages of run B are longer or shorter than those of run A: one row for each stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPen

from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.metrics.comparison.differences import StageDelta, stage_deltas
from evprof.view.columns import ShownModel, columns_of
from evprof.view.labels import stage_title, stages_in, widest_that_fits
from ui.run_facts.figures import interval_text, ratio_text
from ui.state.cells import configuration_of
from ui.state.newest_errand import MANY_RUNS, NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import Selection, SpanRef, TimeRange
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

if TYPE_CHECKING:
    from evprof.metrics.comparison.document import Configuration

_TOP, _ROW, _BAR = 5.0, 16.0, 8.0
_LABEL_PX = 10.5
_SINGLE = "one run each: too few to say better or worse"


class DeltaLane(Lane):
    """From where B's stage begins: a line as long as the shorter of both, then by how much the other is longer.

    A full piece is B's, an outlined one A's; only what an interval tells from A has a colour.

    Signals:
        filled(): it has differences to show now, or none any more.
    """

    filled = Signal()

    lane_height_px = 90

    def __init__(self, scene: TimelineScene) -> None:
        super().__init__(scene)
        self._deltas: list[StageDelta] = []
        self._wordings: dict[str, list[str]] = {}

    @property
    def deltas(self) -> list[StageDelta]:
        return list(self._deltas)

    def show_deltas(self, deltas: Sequence[StageDelta]) -> None:
        if list(deltas) != self._deltas:
            was_empty, self._deltas = self.is_empty(), list(deltas)
            self._wordings = {delta.stage: wordings(delta) for delta in deltas}
            self.update()
            if was_empty != self.is_empty():
                self.filled.emit()

    def is_wanted(self) -> bool:
        return bool(self.scene.headers[0])

    def is_empty(self) -> bool:
        return not self._deltas

    def names(self) -> tuple[str, str]:
        """The lane, and of how many runs it is made."""
        counts = {delta.counts for delta in self._deltas}
        if len(counts) != 1:
            return "B − A", "by stage"
        a, b = next(iter(counts))
        return "B − A", f"n = {a}, {b}"

    def scale_marks(self) -> Sequence[tuple[float, str]]:
        return [(self._middle(place), stage_title(delta.stage)) for place, delta in enumerate(self._deltas)]

    @staticmethod
    def _middle(place: int) -> float:
        return _TOP + _ROW * place + _ROW / 2

    def _bars(self, delta: StageDelta) -> tuple[float, float, float] | None:
        """Where B's stage begins, the shorter and the longer of both end; canvas px. None where B's is not shown."""
        track = self.scene.tracks[1]
        if track is None:
            return None
        name = stages_in(delta.stage)[0]
        span = track.run.stage(delta.stage, track.role) or next(
            (found for found in track.run.stages(track.role) if name in found.covers), None
        )
        if span is None:
            return None
        start = span.start_ns - track.zero_ns
        lengths = sorted((delta.a_ms, delta.b_ms))
        left, shorter, longer = (self.scene.scale.x(start + round(ms * 1e6)) for ms in (0.0, *lengths))
        return left, shorter, longer

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        if not self._deltas:
            self.paint_hint(painter, "Stages that both runs have ended are compared here.")
        painter.setFont(self.scene.theme.font(_LABEL_PX, 500))
        for place, delta in enumerate(self._deltas):
            bars = self._bars(delta)
            if bars is not None:
                self._paint_row(painter, self._middle(place), delta, bars)

    def _color(self, delta: StageDelta) -> QColor:
        theme = self.scene.theme
        return {"good": theme.good, "bad": theme.bad}.get(delta.judgement, theme.text_dim)

    def _paint_row(self, painter: QPainter, middle: float, delta: StageDelta, bars: tuple[float, float, float]) -> None:
        left, shorter, longer = bars
        if longer < 0 or left > self.canvas_width:
            return  # a text without its bar would be cut by the edge
        theme, color = self.scene.theme, self._color(delta)
        painter.fillRect(QRectF(left, middle - 0.5, max(1.0, shorter - left), 1), theme.alpha(theme.text_dim, 0.7))
        piece = QRectF(shorter, middle - _BAR / 2, max(1.0, longer - shorter), _BAR)
        if delta.delta_ms > 0:
            painter.fillRect(piece, theme.alpha(color, 0.85))
        else:
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(color, 1))
            painter.drawRect(piece.adjusted(0, 0.5, -1, -0.5))
        width_of = partial(theme.text_width, size_px=_LABEL_PX, weight=500)
        right = self.canvas_width - 8
        text = widest_that_fits(self._wordings[delta.stage], max(right - longer - 8, left - 16), width_of)
        if not text:
            return
        width = width_of(text)
        x = longer + 6 if width <= right - longer - 8 else left - 6 - width
        painter.setPen(theme.readable(color, theme.panel) if delta.judgement else theme.text_dim)
        painter.drawText(QPointF(x, middle + 3.5), text)

    def hit(self, pos: QPointF) -> Hit | None:
        place = int((pos.y() - _TOP) // _ROW)
        track = self.scene.tracks[1]
        if not 0 <= place < len(self._deltas) or track is None:
            return None
        delta = self._deltas[place]
        facts = [
            ("A", ms_text(delta.a_ms) + _of(delta.counts[0])),
            ("B", ms_text(delta.b_ms) + _of(delta.counts[1])),
            ("B − A", signed(delta.delta_ms)),
            ("B / A", ratio_text(delta.ratio)),
        ]
        note = _SINGLE if max(delta.counts) == 1 else "" if delta.ci95 else "too few runs for an interval"
        if delta.ci95 is not None:
            facts.append(("95 % interval", interval_text(delta.ci95)))
            note = "" if delta.judgement else "no difference: the interval holds 1"
        span = track.run.stage(delta.stage, track.role)
        return Hit(
            stage_title(delta.stage),
            self.scene.theme.stage(stages_in(delta.stage)[-1]),
            facts,
            note,
            span=None if span is None else SpanRef(track.run.run_id, span.span_id),
            range=None
            if span is None or span.end_ns is None
            else TimeRange(span.start_ns - track.zero_ns, span.end_ns - track.zero_ns),
        )


def wordings(delta: StageDelta) -> list[str]:
    """What stands beside a row, longest first."""
    told = {"good": "better", "bad": "worse"}.get(delta.judgement, "")
    short = f"{signed(delta.delta_ms)} · {ratio_text(delta.ratio)}"
    interval = "" if delta.ci95 is None else f" {interval_text(delta.ci95)}"
    return list(dict.fromkeys([f"{short}{interval} {told}".strip(), f"{short} {told}".strip(), short, ""]))


def signed(delta_ms: float) -> str:
    """`+12.3 ms`."""
    return f"{'+' if delta_ms >= 0 else '−'}{ms_text(abs(delta_ms))}"


def _of(count: int) -> str:
    return f"  (mean of {count})" if count > 1 else ""


class DeltaFigures(QObject):
    """Fills the lane."""

    def __init__(self, controller: RunController, selection: Selection, lane: DeltaLane) -> None:
        super().__init__(lane)
        self._controller = controller
        self._selection = selection
        self._lane = lane
        self._known: object = None
        self.errand = NewestErrand("evprof-stage-deltas", self)
        self.errand.done.connect(self._show)
        controller.figures_due.connect(self._note)
        selection.runs_changed.connect(self.look)

    def _note(self, run_ids: set[int]) -> None:
        if self._lane.is_wanted() and run_ids.intersection(self._selection.runs):
            self.look()

    def look(self, *_: object) -> None:
        """Works them out anew where something that counts has changed."""
        a, b = columns_of(self._controller.runs, self._selection.runs)
        if a is None or b is None or a.run is b.run:
            self._known = None
            self.errand.forget()
            self._lane.show_deltas(())
            return
        one, two = self._stands_for(a), self._stands_for(b)
        known = tuple(_ended(run) for side in (one, two) for run in side.runs)
        if known == self._known:
            return
        self._known = known
        if len(one.runs) + len(two.runs) > MANY_RUNS:
            self.errand.ask(lambda: _deltas(one, two))
        else:
            self.errand.forget()
            self._lane.show_deltas(_deltas(one, two))

    def _stands_for(self, column: ShownModel) -> Configuration:
        runs, of_cell = self._controller.runs, self._selection.of_cells
        from evprof.metrics.comparison.document import Configuration

        return configuration_of(runs, column, of_cell=of_cell) or Configuration((column.run,))

    def _show(self, deltas: list[StageDelta] | None) -> None:
        self._lane.show_deltas(deltas or ())


def _deltas(one: Configuration, two: Configuration) -> list[StageDelta]:
    return stage_deltas(one, two)


def _ended(run: RunLog) -> tuple[object, ...]:
    """What the figures of a run depend on; the rows of one that is over may lie in a file, and are not asked for."""
    if run.info.is_over:
        return id(run), run.version
    return (id(run), *((span.span_id, span.start_ns, span.end_ns) for span in run.stages()))
