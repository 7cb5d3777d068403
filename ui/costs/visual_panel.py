"""Visual tokens: what each frame's or event slice's cost, and what fewer of them would save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSlider, QWidget

from evprof.core.units import bytes_text, ms_text, number_text, percent_text
from evprof.metrics.costs.cache_map import cache_map
from evprof.metrics.costs.sweeps import roof_of
from evprof.metrics.costs.visual_costs import (
    PrunedRuns,
    VisualCosts,
    pruned_runs,
    pruning,
    second_costs,
    second_sentences,
    visual_costs,
)
from evprof.metrics.estimates.estimates import Estimate
from evprof.metrics.limits.sizes import ModelSizes, read_ceilings, read_models, sizes_of
from evprof.view.columns import ShownModel
from evprof.view.labels import model_title
from ui.costs.frame_bars import CostBar, FrameBars, FrameGroup, PictureAndSide, side_page
from ui.state.selection import SpanRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role, stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following import FollowingPanel
from ui.widgets.label import Label
from ui.widgets.panel_parts import EmptyState, say, section_head, sentence

_NOTHING = "–"

_ROOF_TIPS = {
    "MFU": "Operations that the model's shape needs at least, a second, as a share of what this machine was measured to"
    " do.",
    "MBU": "Bytes that a step reads at least, a second, as a share of the bandwidth measured here. Where all of them"
    " fit the processor's cache it may exceed 100 %.",
}


@dataclass(frozen=True)
class ShownCosts:
    """A shown model with what its frames cost."""

    letter: str
    shown: ShownModel
    costs: VisualCosts
    sizes: ModelSizes | None


class VisualPanel(FollowingPanel):
    """Follows the shown models. Times of single frames are shares of measured stages, and are called so."""

    is_slow = True

    def make_views(self, themes: ThemeHolder) -> None:
        """Bars left, sums and pruning right."""
        self._found: list[ShownCosts] = []
        self._key: object = None
        self.empty = EmptyState(
            "No visual tokens to weigh yet",
            "What each frame and event slice costs appears here: its tokens, its share of vision and prefill, its "
            "bytes of KV cache, and what fewer tokens would save. Run a sample to fill it.",
            "Run the bundled demo",
        )
        self.empty.activated.connect(self.demo_asked)
        self.told = sentence()
        self.bars = FrameBars(themes)
        self.bars.picked.connect(self._pick)
        self.why = sentence("small")
        self.sums = FigureTable(themes, least_px=64)
        self.sums.setAccessibleName("Visual tokens in all")
        self.keep = QSlider(Qt.Orientation.Horizontal)
        self.keep.setRange(0, 100)
        self.keep.setValue(50)
        self.keep.setPageStep(10)
        self.keep.setAccessibleName("Visual tokens kept")
        self.keep.setToolTip("Share of the visual tokens that would reach the language model")
        self.kept = Label()
        self.kept.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.kept.setMinimumWidth(48)
        self.saved = FigureTable(themes, least_px=64)
        self.saved.setAccessibleName("What keeping fewer would save")
        self.measured = FigureTable(themes, least_px=52)
        self.measured.setAccessibleName("Runs that kept fewer")
        self.measured_head = section_head("Measured, by share kept")
        self.keep.valueChanged.connect(self._show_saved)
        keep_name = in_role(Label("keep"), "dim")
        keep_name.setBuddy(self.keep)
        left = QWidget()
        stacked((self.bars, 1), self.why, on=left)
        side = side_page(
            self.told,
            self.sums,
            GRID,
            section_head("Pruning would save (derived)"),
            beside(keep_name, (self.keep, 1), self.kept, spacing=GRID),
            self.saved,
            GRID,
            self.measured_head,
            self.measured,
        )
        self.body = PictureAndSide(left, side)
        stacked(self.empty, (self.body, 1), on=self, margins=(GRID + 4, GRID, 4, GRID))

    def show_runs(self) -> None:
        """Costs as far as they are known."""
        models = self.shown_models()
        key = [(letter, shown.run.run_id, shown.role, shown.run.version) for letter, shown in models]
        key_of_all = (key, len(self._controller.runs), id(self._controller.book))
        if key_of_all == self._key:
            return
        self._key = key_of_all
        noted = read_models([self._controller.facts().get("models")])
        self._found = []
        for letter, shown in models:
            sizes = sizes_of(shown.run.info.models.get(shown.role), noted)
            costs = visual_costs(*shown, sizes)
            if costs is not None:
                self._found.append(ShownCosts(letter, shown, costs, sizes))
        self.empty.setVisible(not self._found)
        self.body.setVisible(bool(self._found))
        self.bars.show_groups(
            [
                FrameGroup(f"{one.letter} · {model_title(*one.shown)}", one.shown.run.run_id, one.shown.role, one.costs)
                for one in self._found
            ]
        )
        say(self.told, " ".join(_second_sentences(self._found)))
        say(self.why, " ".join(dict.fromkeys(why for one in self._found for why in one.costs.why)))
        self._show_sums()
        self._show_saved()
        self._show_measured()

    def _show_sums(self) -> None:
        def cells(read: Callable[[VisualCosts], str]) -> tuple[str, ...]:
            return tuple(read(one.costs) for one in self._found)

        rows = [
            TableRow("visual tokens", cells(lambda costs: f"{costs.whole.tokens:,}"), "counted"),
            TableRow("of the prompt", cells(lambda costs: percent_text(costs.whole.tokens / costs.input_tokens))),
            TableRow("vision", cells(lambda costs: _ms(costs.whole.vision_ms)), "measured", swatch="vision"),
            TableRow("prefill", cells(lambda costs: _ms(costs.whole.prefill_ms)), "share by tokens", swatch="prefill"),
            TableRow("decode", cells(lambda costs: _ms(costs.whole.decode_ms)), "share by bytes", swatch="decode"),
            TableRow("KV cache", cells(lambda costs: bytes_text(costs.whole.kv_bytes)), "by formula"),
            TableRow(
                "of the time to the first token",
                cells(lambda costs: _NOTHING if (share := costs.share_of_first_token) is None else percent_text(share)),
                tip="Vision and the visual tokens' share of prefill; loading and preprocessing are not visual tokens'.",
            ),
            TableRow(
                "for a second of input",
                cells(_per_second),
                unit="tokens · ms",
                tip="Tokens, and vision and prefill in ms, over the sensor time that the frames span.",
            ),
        ]
        rows += self._roof_rows()
        self.sums.show_rows(rows, tuple(one.letter for one in self._found))

    def _roof_rows(self) -> list[TableRow]:
        """How near this machine's ceilings the shown runs came; nothing where no suite of the session measured any."""
        facts = self._controller.facts()
        noted, ceilings = read_models([facts.get("models")]), read_ceilings([facts.get("ceilings")])
        found = [roof_of([one.shown.run], noted, ceilings) if one.shown.is_answer else () for one in self._found]
        known = [{share.stage: share for share in roof if share.share is not None} for roof in found]
        rows = []
        for stage, figure in (("vision", "MFU"), ("prefill", "MFU"), ("decode", "MBU")):
            cells = tuple(percent_text(roof[stage].share) if stage in roof else _NOTHING for roof in known)
            if any(stage in roof for roof in known):
                rows.append(TableRow(stage, cells, figure, tip=_ROOF_TIPS[figure], swatch=stage))
        return rows

    def _show_saved(self, *_: object) -> None:
        share = self.keep.value() / 100
        self.kept.setText(percent_text(share))
        answers = [one for one in self._found if one.shown.is_answer]
        found = []
        for one in answers:
            held = cache_map(*one.shown)
            if held is not None:
                kept = round(share * one.costs.whole.tokens)
                found.append(pruning(one.shown.run, one.costs, held, kept, one.sizes))
        by = {entry.is_by_operations for entry in found}
        way = "by operations" if by == {True} else "by tokens" if by == {False} else ""
        rows = [
            TableRow("tokens kept", tuple(f"{entry.kept:,}" for entry in found)),
            TableRow("prefill", tuple(_ms(entry.prefill_ms) for entry in found), unit=way, swatch="prefill"),
            TableRow("decode", tuple(_ms(entry.decode_ms) for entry in found), unit="by bytes read", swatch="decode"),
            TableRow("KV cache", tuple(bytes_text(entry.kv_bytes) for entry in found), tip=_VISION),
        ]
        shown = rows if found else []
        self.saved.show_rows(shown, tuple(one.letter for one in answers))

    def _show_measured(self) -> None:
        """Runs of the same model on the same sample that kept other shares."""
        rows = []
        for one in self._found:
            tried = pruned_runs(one.shown.run, self._controller.runs.values()) if one.shown.is_answer else []
            if len(tried) > 1:
                rows += [_pruned_row(one.letter, entry) for entry in tried]
        self.measured.setVisible(bool(rows))
        self.measured_head.setVisible(bool(rows))
        self.measured.show_rows(rows, ("tokens", "prefill", "per token", "KV", "runs"))

    def _pick(self, bar: CostBar) -> None:
        run = self._controller.run(bar.group.run_id)
        span = None if run is None else run.stage(bar.stage, bar.group.role)
        if run is not None and span is not None:
            self._selection.select(SpanRef(run.run_id, span.span_id))


def _second_sentences(costs: Sequence[ShownCosts]) -> list[str]:
    """What a second of input costs each model, where its sensor time is known."""
    seconds = [(one.letter, second_costs(*one.shown, one.costs)) for one in costs]
    return second_sentences([(letter, cost) for letter, cost in seconds if cost is not None])


_VISION = "Vision is not saved: the tower still reads every picture, and the tokens are chosen after it."


def _ms(value: float | None) -> str:
    return _NOTHING if value is None else ms_text(value)


def _per_second(costs: VisualCosts) -> str:
    spent = costs.whole.first_token_ms
    if costs.sensor_s is None:
        return _NOTHING
    tokens = f"{number_text(costs.whole.tokens / costs.sensor_s, 3)}"
    return tokens if spent is None else f"{tokens} · {number_text(spent / costs.sensor_s, 3)}"


def _pruned_row(letter: str, entry: PrunedRuns) -> TableRow:
    tokens = _NOTHING if entry.visual_tokens is None else f"{entry.visual_tokens:,}"
    each = (_estimate(entry.prefill_ms), _estimate(entry.decode_ms_per_token), bytes_text(entry.kv_bytes))
    return TableRow(f"{letter} · {percent_text(entry.share)}", (tokens, *each, str(len(entry.runs))))


def _estimate(found: Estimate | None) -> str:
    return _NOTHING if found is None else ms_text(found.value)
