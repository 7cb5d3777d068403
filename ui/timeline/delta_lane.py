"""The lane *B − A*: by how much the mean times of B's configuration are longer or shorter than A's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from evprof.core.run_log import RunLog
from evprof.core.units import count_text, ms_text, percent_text, times_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.labels import stages_in
from ui.state.newest_errand import NewestErrand
from ui.state.run_controller import RunController
from ui.state.selection import SpanRef
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

if TYPE_CHECKING:
    from evprof.metrics.comparison.differences import Difference
    from evprof.metrics.configurations.gathering import Configuration

_TOP, _ROW, _BAR = 22.0, 15.0, 9.0
_MOST_ROWS = 8
_NAMES_PX, _TEXT_PX = 140.0, 110.0
_LABEL_PX = 10.5
_NOT_STAGES = ("unattributed", "overlap", "remainder")
"""Parts that are never better or worse."""


def configuration_like(runs: Mapping[int, RunLog], run_id: int | None, *, of_cell: bool) -> Configuration | None:
    """The finished repeats of a run's request, or with `of_cell` the runs of its cell; without, a row is alone."""
    from evprof.metrics.configurations.gathering import configuration_key, configurations_of

    run = None if run_id is None else runs.get(run_id)
    if run is None:
        return None
    key, is_alone = configuration_key(run.info), run.info.cell and not of_cell
    like = [run] if is_alone else [one for one in runs.values() if configuration_key(one.info) == key]
    return next(iter(configurations_of(like)), None)


class _Row(NamedTuple):
    """A bar: `stage` is the name of a part, "" for the total."""

    stage: str
    name: str
    delta_ms: float
    text: str
    is_clear: bool
    facts: list[tuple[str, str]]


class DeltaLane(Lane):
    """A row for the total and each part, on one scale of their own that holds the longest bar."""

    lane_height_px = int(_TOP + _MOST_ROWS * _ROW + 4)
    is_timed = False
    tip = (
        "Difference of mean times in ms, B less A, on a scale of its own. Green and red bars are called by the verdict "
        "of the comparison, grey ones are not."
    )

    def __init__(self, scene: TimelineScene, controller: RunController) -> None:
        super().__init__(scene)
        self._controller = controller
        self._known: object = None
        self.difference: Difference | None = None
        self.rows: list[_Row] = []
        self.errand = NewestErrand("evprof-difference", self)
        self.errand.done.connect(self._show)
        controller.figures_due.connect(self.look)
        scene.selection.runs_changed.connect(self.look)

    def look(self, *_: object) -> None:
        """Compares the configurations of the shown runs again where others are shown or more of their runs are over."""
        selection, runs = self.scene.selection, self._controller.runs
        a, b = (configuration_like(runs, run_id, of_cell=selection.of_cells) for run_id in selection.runs)
        is_pair = selection.runs[0] != selection.runs[1]
        known = [tuple((id(run), run.version) for run in side.runs) for side in (a, b) if side is not None]
        if (is_pair, known) == self._known:
            return
        self._known = is_pair, known
        if is_pair and a is not None and b is not None:
            self.errand.begin(partial(_difference, a, b), len(a.runs) + len(b.runs))
        else:
            self.errand.forget()
            self._show(None)

    def _show(self, difference: Difference | None) -> None:
        self.difference = difference
        self.rows = [] if difference is None else _rows(difference)
        self.refresh()

    def is_wanted(self) -> bool:
        """Also while the second run of a pair is still to come."""
        return bool(self.scene.headers[0]) or any(
            mode_of(track.run.info.mode).is_side_by_side for _, track in self.scene.shown
        )

    def names(self) -> tuple[str, str]:
        """The lane, and of how many runs the means are."""
        if self.difference is None:
            return "B − A", "computing …" if self.errand.is_busy else "no two finished runs"
        return "B − A", f"means of {len(self.difference.baseline.runs):,} and {len(self.difference.other.runs):,}"

    def _geometry(self) -> tuple[float, float]:
        """Where 0 is, and px per ms: both ends of the longest bars and their texts are within the lane."""
        low, high = (end([0.0, *(row.delta_ms for row in self.rows)]) for end in (min, max))
        left, right = (_TEXT_PX if end else 8.0 for end in (low, high))
        room = max(1.0, self.canvas_width - _NAMES_PX - left - right)
        scale = room / ((high - low) or 1.0)
        return _NAMES_PX + left - low * scale, scale

    def bar(self, place: int) -> QRectF:
        zero, scale = self._geometry()
        ends = sorted((zero, zero + self.rows[place].delta_ms * scale))
        return QRectF(ends[0], _TOP + place * _ROW + (_ROW - _BAR) / 2, max(1.0, ends[1] - ends[0]), _BAR)

    def paint_canvas(self, painter: QPainter) -> None:
        theme, zero = self.scene.theme, self._geometry()[0]
        painter.setPen(theme.text_dim)
        head = QRectF(12, 0, self.canvas_width - 24, _TOP)
        theme.write(painter, head, self.sentence(), SMALL_PX)
        for place, row in enumerate(self.rows):
            bar, color = self.bar(place), self._color(row)
            line = QRectF(12, _TOP + place * _ROW, _NAMES_PX - 20, _ROW)
            painter.setPen(theme.text if not row.stage else theme.text_dim)
            theme.write(painter, line, row.name, _LABEL_PX, 500)
            painter.fillRect(bar, theme.alpha(color, 0.85 if row.is_clear else 0.6))
            width = theme.text_width(row.text, _LABEL_PX, 500) + 4
            left = bar.right() + 6 if row.delta_ms >= 0 else bar.left() - 6 - width
            painter.setPen(theme.readable(color, theme.panel) if row.is_clear else theme.text_dim)
            theme.write(painter, QRectF(left, line.top(), width, _ROW), row.text, _LABEL_PX, 500)
        if self.rows:
            painter.fillRect(QRectF(zero, _TOP, 1, len(self.rows) * _ROW), theme.text_dim)

    def sentence(self) -> str:
        """What the bars are of, and what the lanes above them show."""
        if self.difference is None:
            return "Finished runs of A and B are compared here."
        a, b = self.scene.selection.runs
        counts = [count_text(len(side.runs), "run") for side in (self.difference.baseline, self.difference.other)]
        return f"B less A: means of {counts[1]} and {counts[0]}. The lanes above are runs {a} and {b} alone."

    def _color(self, row: _Row) -> QColor:
        theme = self.scene.theme
        return theme.text_dim if not row.is_clear else theme.good if row.delta_ms < 0 else theme.bad

    def hit(self, pos: QPointF) -> Hit | None:
        """The row; a click selects B's stage of that name."""
        place = int((pos.y() - _TOP) // _ROW)
        if not 0 <= place < len(self.rows):
            return None
        row, track = self.rows[place], self.scene.tracks[1]
        span = None if track is None else track.run.stage(row.stage, track.role)
        color = self.scene.theme.stage(stages_in(row.stage)[-1]) if stages_in(row.stage) else self._color(row)
        ref = None if span is None or track is None else SpanRef(track.run.run_id, span.span_id)
        return Hit(row.name, color, row.facts, "" if row.is_clear else "not called longer or shorter", span=ref)


def _difference(a: Configuration, b: Configuration) -> Difference:
    from evprof.metrics.comparison.differences import difference_of
    from evprof.metrics.figures.stages import widest_basis

    return difference_of(a, b, widest_basis([a.runs, b.runs]))


def _rows(difference: Difference) -> list[_Row]:
    from evprof.metrics.configurations.gathering import BOTH_MODELS

    is_both = BOTH_MODELS in (difference.baseline.model, difference.other.model)
    rows, total = [], difference.total
    if total is not None:
        text = signed(total.delta) + (f" · {times_text(total.ratio)}" if total.ratio else "")
        facts = [("A", ms_text(total.means[0])), ("B", ms_text(total.means[1])), ("B − A", signed(total.delta))]
        note = [("verdict", total.reason)] if total.reason and not total.is_clear else []
        rows.append(
            _Row("", f"total, {difference.basis.replace('-', ' ')}", total.delta, text, total.is_clear, facts + note)
        )
    for part in difference.parts[: _MOST_ROWS - len(rows)]:
        facts = [("B − A", signed(part.delta_ms))]
        if part.interval is not None:
            facts.append(("95 % interval", " … ".join(map(signed, part.interval))))
        if part.share is not None:
            facts.append(("of the difference", percent_text(part.share, 1)))
        name = f"{part.stage}, {BOTH_MODELS}" if is_both and stages_in(part.stage) else part.stage
        is_clear = part.is_clear and part.stage not in _NOT_STAGES
        rows.append(_Row(part.stage, name.replace("+", " + "), part.delta_ms, signed(part.delta_ms), is_clear, facts))
    return rows


def signed(delta_ms: float) -> str:
    """`+12.3 ms`."""
    return f"{'+' if delta_ms >= 0 else '−'}{ms_text(abs(delta_ms))}"
