"""The panel on visual tokens: the cost of each frame or event slice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtWidgets import QWidget

from evprof.core.units import bytes_text, count_text, ms_text, percent_text
from evprof.metrics.costs.sweeps import roof_of
from evprof.metrics.costs.visual_costs import FrameCost, TokenCost, VisualCosts, visual_costs
from evprof.metrics.limits.sizes import read_ceilings, read_models, sizes_of
from evprof.view.columns import ShownModel
from evprof.view.labels import axis_text, model_title
from ui.costs.stacked_bars import FAINT, PLAIN, Bar, BarGroup, BarPart, StackedBars, WithSide
from ui.run_facts.run_text import NOTHING
from ui.state.selection import SpanRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following import FollowingPanel
from ui.widgets.panel_parts import EmptyState, say, sentence

_ROOF_TIPS = {
    "MFU": "The operations that the model's shape needs, per second, as a share of this machine's measured rate.",
    "MBU": "The bytes that a step reads, per second, as a share of the measured bandwidth. It may exceed 100 % if all "
    "of them fit the processor's cache.",
}


@dataclass(frozen=True)
class ShownCosts:
    letter: str
    shown: ShownModel
    costs: VisualCosts


class VisualPanel(FollowingPanel):
    """Follows the shown models. Times of single frames are shares of measured stages."""

    is_slow = True

    def make_views(self, themes: ThemeHolder) -> None:
        self._key: object = None
        self.empty = EmptyState(
            "No visual tokens to weigh yet",
            "What each frame and event slice costs appears here: its tokens, its share of vision and prefill, and its "
            "bytes of KV cache. Run a sample to fill it.",
            "Run the bundled demo",
        )
        self.empty.activated.connect(self.demo_asked)
        self.bars = StackedBars(themes, axis_text)
        self.bars.setAccessibleName("What each frame costs")
        self.bars.picked.connect(self._selection.select)
        self.why = sentence("small")
        self.sums = FigureTable(themes, least_px=64)
        self.sums.setAccessibleName("Visual tokens in all")
        left = QWidget()
        stacked((self.bars, 1), self.why, on=left)
        self.body = WithSide(left, self.sums)
        stacked(self.empty, (self.body, 1), on=self, margins=(GRID + 4, GRID, 4, GRID))

    def show_runs(self) -> None:
        models = self.shown_models()
        key = [(letter, shown, shown.run.version) for letter, shown in models], id(self._controller.book)
        if key == self._key:
            return
        self._key = key
        facts, found = self._controller.facts(), []
        noted = read_models([facts.get("models")])
        for letter, shown in models:
            costs = visual_costs(*shown, sizes_of(shown.run.info.models.get(shown.role), noted))
            if costs is not None:
                found.append(ShownCosts(letter, shown, costs))
        self.empty.setVisible(not found)
        self.body.setVisible(bool(found))
        self.bars.show_groups(list(map(_group, found)))
        say(self.why, " ".join(dict.fromkeys(why for one in found for why in one.costs.why)))
        rows = [*_rows([one.costs for one in found]), *self._roof_rows(found)]
        self.sums.show_rows(rows, tuple(one.letter for one in found))

    def _roof_rows(self, found: list[ShownCosts]) -> list[TableRow]:
        """Shares of the machine's ceilings; none where no suite of the session measured them."""
        facts = self._controller.facts()
        noted, ceilings = read_models([facts.get("models")]), read_ceilings([facts.get("ceilings")])
        roofs = [roof_of([one.shown.run], noted, ceilings) if one.shown.is_answer else [] for one in found]
        known = [{entry["stage"]: entry["share"] for entry in roof if entry["share"] is not None} for roof in roofs]
        rows = []
        for stage, figure in (("vision", "MFU"), ("prefill", "MFU"), ("decode", "MBU")):
            if any(stage in roof for roof in known):
                cells = tuple(percent_text(roof[stage]) if stage in roof else NOTHING for roof in known)
                rows.append(TableRow(stage, cells, figure, tip=_ROOF_TIPS[figure], swatch=stage))
        return rows


def _group(one: ShownCosts) -> BarGroup:
    costs = one.costs
    bars = [_bar(one, str(frame.frame + 1), frame, frame.cost) for frame in costs.frames]
    bars += [_bar(one, "shared", None, costs.shared)] if costs.shared.tokens else []
    text = f"{count_text(len(costs.frames), 'frame')} · {count_text(costs.whole.tokens, 'token')}"
    return BarGroup(f"{one.letter} · {model_title(*one.shown)}", text, tuple(bars))


def _bar(one: ShownCosts, name: str, frame: FrameCost | None, cost: TokenCost) -> Bar:
    """The known shares of vision, prefill and decode."""
    times = {"vision": cost.vision_ms, "prefill": cost.prefill_ms, "decode": cost.decode_ms}
    known = {stage: time for stage, time in times.items() if time}
    head = "shared by all frames" if frame is None else frame.label or f"frame {name}"
    tokens = f"{count_text(cost.tokens, 'token')} · {bytes_text(cost.kv_bytes)} of KV"
    shares = ", ".join(f"{stage} {ms_text(time)}" for stage, time in known.items()) or "not known"
    run, role = one.shown
    parts = []
    for stage, time in known.items():
        span = run.stage(stage, role)
        chosen = None if span is None else SpanRef(run.run_id, span.span_id)
        style = PLAIN if frame is not None else FAINT
        parts.append(BarPart(time, stage, f"{head}\n{tokens}\nshares: {shares}", chosen, style))
    return Bar(name, tuple(parts))


def _rows(listed: list[VisualCosts]) -> list[TableRow]:
    def row(name: str, read: Callable[[VisualCosts], str], unit: str = "", swatch: str = "", tip: str = "") -> TableRow:
        return TableRow(name, tuple(map(read, listed)), unit, tip=tip, swatch=swatch)

    return [
        row("visual tokens", lambda costs: f"{costs.whole.tokens:,}", "counted"),
        row("of the prompt", lambda costs: percent_text(costs.whole.tokens / costs.input_tokens)),
        row("vision", lambda costs: _ms(costs.whole.vision_ms), "measured", swatch="vision"),
        row("prefill", lambda costs: _ms(costs.whole.prefill_ms), "share by tokens", swatch="prefill"),
        row("decode", lambda costs: _ms(costs.whole.decode_ms), "share by bytes", swatch="decode"),
        row("KV cache", lambda costs: bytes_text(costs.whole.kv_bytes), "by formula"),
        row(
            "of the time to the first token",
            lambda costs: NOTHING if (share := costs.share_of_first_token) is None else percent_text(share),
            tip="Vision and the share of prefill; loading and preprocessing do not count.",
        ),
    ]


def _ms(value: float | None) -> str:
    return NOTHING if value is None else ms_text(value)
