"""The scaling ribbon: stages over frames or clip lengths of the session's runs, with slopes and shares of the roof."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QSizePolicy, QWidget

from evprof.core.units import percent_text
from evprof.metrics.costs.sweeps import (
    FLAT,
    TOO_FEW,
    UNCLEAR,
    Ribbon,
    RoofShare,
    ends_text,
    has_single_runs,
    ribbons_of,
    slope_text,
)
from evprof.metrics.limits.sizes import read_ceilings, read_models
from evprof.view.columns import pair_for
from evprof.view.decimate import nice_ceiling
from ui.costs.ribbon_chart import RibbonChart, StackPart
from ui.costs.roof_words import ROOF_TIPS
from ui.costs.sweep_requests import SWEEP_FRAMES, SWEEP_REPEATS
from ui.state.newest_errand import NewestErrand
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.empty_state import EmptyState
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following_panel import FollowingPanel
from ui.widgets.label import Label
from ui.widgets.panel_parts import scrolling, section_head

_LEAST_PX = 360
"""Least width of one sweep; where there is less, they stand below one another."""

_WIDE_PX = 680
"""From this width of one sweep on, its figures stand beside its chart: far from their names they are hard to read."""


class RibbonView(QWidget):
    """One sweep: its chart, a sentence per stage, and the shares of the roof."""

    def __init__(self, themes: ThemeHolder, ribbon: Ribbon, top_ms: float) -> None:
        super().__init__()
        self.ribbon = ribbon
        axis = ribbon.sweep.axis
        title = in_role(Label(ribbon.sweep.name), "title")
        title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        told = in_role(Label(f"over {axis.plural} · {ribbon.run_count:,} runs"), "small")
        self.chart = RibbonChart(themes)
        self.chart.show_ribbon(ribbon, top_ms)
        self.slopes = FigureTable(themes, least_px=56)
        self.slopes.show_rows(slope_rows(ribbon), (f"ms / extra {axis.noun}", "95 % within", "measured at", ""))
        self.roof = FigureTable(themes, least_px=48)
        rows, heads = roof_rows(ribbon)
        self.roof.show_rows(rows, heads)
        self.roof.setVisible(bool(rows))
        self._figures = QWidget()
        stacked(self.slopes, GRID, self.roof, None, on=self._figures, spacing=0)
        self._parts = stacked((self.chart, 2), (self._figures, 3), spacing=2 * GRID)
        stacked(beside((title, 1), told, spacing=GRID), self._parts, None, on=self, spacing=GRID // 2)

    def minimumSizeHint(self) -> QSize:
        """What stands beside the chart now can stand below it."""
        return QSize(self.chart.minimumWidth(), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Chart and figures beside each other, or above."""
        is_wide = self.width() >= _WIDE_PX
        direction = QBoxLayout.Direction.LeftToRight if is_wide else QBoxLayout.Direction.TopToBottom
        self._parts.setDirection(direction)
        beside_px = self._figures.sizeHint().height() if is_wide else 0
        self.chart.setFixedHeight(max(self.chart.sizeHint().height(), beside_px))
        super().resizeEvent(event)


class ScalingPanel(FollowingPanel):
    """Follows all finished runs of the session, whichever are shown.

    Signals:
        sweep_asked(): the button for runs with several numbers of frames was pressed.
    """

    sweep_asked = Signal()

    is_slow = True
    follows_all_runs = True

    def make_views(self, themes: ThemeHolder) -> None:
        """Sweeps side by side as far as there is room."""
        self._key: object = None
        self._columns = 0
        self.views: list[RibbonView] = []
        self.errand = NewestErrand("evprof-scaling", self)
        self.errand.done.connect(self._show)
        frames = f"{', '.join(map(str, SWEEP_FRAMES[:-1]))} and {SWEEP_FRAMES[-1]}"
        self.empty = EmptyState(
            "Nothing to see growth in yet",
            "Runs of one model that differ only in frames or in the length of the clip are drawn here stage by stage, "
            "with what one more frame or second costs and how sure that is. The suite token-scaling fills it, and so "
            "do a few runs of the sample that is open.",
            f"Run this sample with {frames} frames, {SWEEP_REPEATS} times each",
        )
        self.empty.activated.connect(self.sweep_asked)
        self._ground = in_role(QWidget(), "panel")
        self._ground.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._grid = QGridLayout(self._ground)
        self._grid.setContentsMargins(0, 0, GRID, 0)
        self._grid.setHorizontalSpacing(3 * GRID)
        self._grid.setVerticalSpacing(2 * GRID)
        area = scrolling(self._ground)
        self.body = QWidget()
        stacked(
            section_head("What more frames or seconds cost"),
            (area, 1),
            on=self.body,
            spacing=GRID // 2,
        )
        stacked(self.empty, (self.body, 1), on=self, margins=(GRID + 4, GRID, 4, GRID))
        self._show([])

    def show_runs(self) -> None:
        """Works out the sweeps on a thread, where other runs are finished than before."""
        runs = [run for run in self._controller.runs.values() if run.info.is_over]
        facts = self._controller.facts()
        key = (id(self._controller.book), len(runs), len(facts))
        if key == self._key:
            return
        self._key = key
        noted, ceilings = read_models([facts.get("models")]), read_ceilings([facts.get("ceilings")])
        self.errand.ask(partial(ribbons_of, runs, noted, ceilings))

    @property
    def is_busy(self) -> bool:
        """Whether sweeps are being worked out."""
        return self.errand.is_busy

    def finish(self) -> None:
        """Waits for the thread."""
        self.errand.wait()

    def _show(self, ribbons: Sequence[Ribbon] | None) -> None:
        for view in self.views:
            self._grid.removeWidget(view)
            view.hide()
            view.deleteLater()
        together: dict[str, list[Ribbon]] = {}
        for ribbon in ribbons or ():
            together.setdefault(ribbon.sweep.axis.key, []).append(ribbon)
        tops = {key: top_of(found) for key, found in together.items()}
        self.views = [
            RibbonView(self._themes, ribbon, tops[ribbon.sweep.axis.key])
            for found in together.values()
            for ribbon in found
        ]
        for view in self.views:
            view.chart.picked.connect(self._pick)
        self.empty.setVisible(not self.views)
        self.body.setVisible(bool(self.views))
        self._columns = 0
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """As many sweeps side by side as there is room for."""
        self._arrange()

    def _arrange(self) -> None:
        columns = max(1, min(len(self.views), self.width() // _LEAST_PX))
        if columns == self._columns:
            return
        self._columns = columns
        for place, view in enumerate(self.views):
            self._grid.addWidget(view, place // columns, place % columns)
            view.show()
        for column in range(self._grid.columnCount()):
            self._grid.setColumnStretch(column, int(column < columns))

    def _pick(self, part: StackPart) -> None:
        run_id = part.point.run_ids[0]
        if run_id in self._controller.runs:
            self._selection.set_runs(*pair_for(self._controller.runs, run_id))


def top_of(ribbons: Sequence[Ribbon]) -> float:
    """The scale's upper end for sweeps on one axis: all bars, and intervals as far as they leave these their size."""
    points = [point for ribbon in ribbons for point in ribbon.points]
    bars = max((sum(found.value for found in point.stages.values()) for point in points), default=0.0)
    ends = [point.total.interval[1] for point in points if point.total is not None and point.total.interval is not None]
    return nice_ceiling(1.05 * max(bars, min(1.4 * bars, max(ends, default=0.0))) or 1.0)


def slope_rows(ribbon: Ribbon) -> list[TableRow]:
    """What one more of it costs, by stage: slope, interval, what it rests on, and what can be said of it."""
    rows = []
    for slope in ribbon.slopes:
        verdict, line = slope.verdict, slope.line
        is_single = has_single_runs(line)
        basis = f"{line.places} sizes, {'1 run each' if is_single else f'{line.count:,} runs'}"
        cells = (slope_text(line).replace("-", "−"), ends_text(line).replace("-", "−") or "–", basis, verdict)
        tone = "warn" if verdict in (UNCLEAR, TOO_FEW) else "dim" if verdict == FLAT else ""
        roles = ("", "dim", "warn" if is_single else "dim", tone)
        stage = slope.stage.partition(" ")[0]
        rows.append(TableRow(slope.stage, cells, "", roles, slope.sentence, has_line=False, swatch=stage))
    return rows


def roof_rows(ribbon: Ribbon) -> tuple[list[TableRow], tuple[str, ...]]:
    """Shares of the machine's ceilings by stage, for each amount; nothing where no ceiling was measured."""
    by_stage: dict[tuple[str, str], list[RoofShare | None]] = {}
    for place, point in enumerate(ribbon.points):
        for share in point.roof:
            row = by_stage.setdefault((share.stage, share.figure), [None] * len(ribbon.points))
            row[place] = share
    known = {
        key: shares for key, shares in by_stage.items() if any(share and share.share is not None for share in shares)
    }
    rows = [
        TableRow(
            stage,
            tuple("–" if share is None or share.share is None else percent_text(share.share) for share in shares),
            unit=figure,
            tip=ROOF_TIPS[figure],
            swatch=stage,
            has_line=False,
        )
        for (stage, figure), shares in known.items()
    ]
    return rows, tuple(f"{point.place:g}" for point in ribbon.points)
