"""The KV view: the origin of the bytes in both caches, theory beside measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text, bytes_texts, ms_text
from evprof.metrics.costs.cache_map import (
    DRAFTED,
    GENERATED,
    HELD_ORIGINS,
    ROLLED_BACK,
    VISUAL,
    CacheMap,
    cache_map,
    reason_without,
)
from evprof.view.columns import ShownModel
from evprof.view.labels import model_title
from ui.costs.cache_picture import ORIGIN_WORDS, STAGE_OF_ORIGIN, CacheBlock, CachePicture, CachePiece
from ui.costs.frame_bars import PictureAndSide, side_page
from ui.state.selection import Chosen, RoundRef, SpanRef, TimeRange, TokenRef
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import stacked
from ui.widgets.figure_table import FigureTable, TableRow
from ui.widgets.following import FollowingPanel
from ui.widgets.panel_parts import EmptyState, say, section_head, sentence

_NOTHING = "–"


class KvPanel(FollowingPanel):
    """Follows the shown models, and the moment that is selected."""

    def make_views(self, themes: ThemeHolder) -> None:
        """Picture left, figures right."""
        self.empty = EmptyState(
            "No KV cache to look at yet",
            "The bytes of both models' caches appear here: what the prompt, each frame, the answer and rejected drafts "
            "take in every layer, measured beside the formula. Run a sample to fill it.",
            "Run the bundled demo",
        )
        self.empty.activated.connect(self.demo_asked)
        self.picture = CachePicture(themes)
        self.picture.picked.connect(self._pick)
        self.moment = sentence("dim")
        self.lacking = sentence("dim")
        self.table = FigureTable(themes, least_px=64)
        self.table.setAccessibleName("KV cache by origin")
        left = QWidget()
        stacked(section_head("KV cache by layer and origin"), self.moment, (self.picture, 1), self.lacking, on=left)
        self.body = PictureAndSide(left, side_page(self.table))
        stacked(self.empty, (self.body, 1), on=self, margins=(GRID + 4, GRID, 4, GRID))
        self._selection.chosen_changed.connect(self._fill)
        self._selection.offset_changed.connect(self._fill)

    def show_runs(self) -> None:
        """Caches as they are, or as they were at the end of what is selected."""
        models = [pair for pair in self.shown_models() if pair[1].role in pair[1].run.info.models]
        self.empty.setVisible(not models)
        self.body.setVisible(bool(models))
        at = moment_ns(self._controller.runs, self._selection.chosen, self._moved)
        found = [(letter, shown, self._map(shown, at)) for letter, shown in models]
        self.picture.show_blocks(
            [self._block(letter, shown, held) for letter, shown, held in found if held is not None]
        )
        say(self.moment, "" if at is None else f"As it was at {ms_text(at / 1e6)}, the end of the selection.")
        missing = [f"{letter}: {_reason(shown, at)}" for letter, shown, held in found if held is None]
        say(self.lacking, " ".join(missing))
        self._show_table([(letter, held) for letter, _, held in found if held is not None])

    @property
    def _moved(self) -> dict[int, int]:
        """How far runs are moved on the axis: B's, where it is another one than A's."""
        a, b = self._selection.runs
        return {} if b is None or a == b else {b: self._selection.offset_ns}

    def _map(self, shown: ShownModel, at: int | None) -> CacheMap | None:
        start = shown.run.info.start_ns
        if at is None or start is None:
            return cache_map(*shown)
        return cache_map(*shown, start + at - self._moved.get(shown.run.run_id, 0))

    def _block(self, letter: str, shown: ShownModel, held: CacheMap) -> CacheBlock:
        run, role = shown
        token, lengths = self._selection.token, run.info.lengths.get(role)
        position = None
        if token is not None and token.run_id == run.run_id and lengths is not None:
            place = lengths.input + token.position
            position = place if place < held.length else None
        return CacheBlock(f"{letter} · {model_title(run, role)} · run {run.run_id}", run.run_id, role, held, position)

    def _show_table(self, found: list[tuple[str, CacheMap]]) -> None:
        maps = [held for _, held in found]

        def cells(read: Callable[[CacheMap], float | None]) -> tuple[str, ...]:
            values = [read(held) for held in maps]
            told = zip(values, bytes_texts(values), strict=True)
            return tuple(_NOTHING if value is None else text for value, text in told)

        rows = [
            TableRow(
                "drafted" if origin == DRAFTED else origin,
                tuple(bytes_texts([held.bytes_of(origin) for held in maps])),
                tip=ORIGIN_WORDS[origin],
                swatch=STAGE_OF_ORIGIN[origin],
            )
            for origin in HELD_ORIGINS
            if any(held.bytes_of(origin) for held in maps)
        ]
        rows += [
            TableRow("in use", cells(lambda held: held.held_bytes), unit="by formula", tip=_FORMULA),
            TableRow("in use", cells(lambda held: held.measured_bytes), unit="measured", tip=_MEASURED),
            TableRow("difference", tuple(map(_difference, maps)), roles=tuple(map(_role, maps))),
            TableRow("set aside, empty", cells(lambda held: held.reserved_bytes), tip=_RESERVED),
            TableRow(
                ROLLED_BACK,
                cells(lambda held: held.rolled_back_bytes),
                tip=ORIGIN_WORDS[ROLLED_BACK],
                swatch="verify",
            ),
            TableRow("one position", cells(lambda held: held.held_bytes / held.length), unit="all layers"),
            TableRow("kind of cache", tuple(held.kind for held in maps)),
        ]
        self.table.show_rows(rows if maps else [], tuple(letter for letter, _ in found))

    def _pick(self, piece: CachePiece) -> None:
        run = self._controller.run(piece.block.run_id)
        if run is not None and (chosen := maker_of(run, piece.block.role, piece.origin)) is not None:
            self._selection.select(chosen)


_FORMULA = "2 (keys and values) · layers · KV heads · head width · positions · bytes of a number, as the cache keeps it"
_MEASURED = "Walked in the cache's tensors at the end of the run; known once it is over."
_RESERVED = "Room that was set aside and never filled: a static cache's, or the end of its last step."


def _difference(held: CacheMap) -> str:
    if held.difference is None:
        return _NOTHING
    return "none" if held.difference == 0 else f"{'+' * (held.difference > 0)}{bytes_text(held.difference)}"


def _role(held: CacheMap) -> str:
    return "dim" if held.difference is None else "" if held.difference == 0 else "warn"


def _reason(shown: ShownModel, at: int | None) -> str:
    return reason_without(*shown) if at is None else "Nothing was in the cache yet."


def moment_ns(runs: Mapping[int, RunLog], chosen: Chosen | None, moved: Mapping[int, int]) -> int | None:
    """The end of a selected range, span or round on the axis, in ns; None where none is, or its end is not known yet.

    `moved` says by run how far it is moved on the axis. A token is a place in the cache and no moment: it gets there a
    step after it is chosen.
    """
    if isinstance(chosen, TimeRange):
        return chosen.end_ns
    run = None if chosen is None or isinstance(chosen, TokenRef) else runs.get(chosen.run_id)
    if run is None or run.info.start_ns is None:
        return None
    end: int | None = None
    if isinstance(chosen, SpanRef):
        span = run.spans.get(chosen.span_id)
        end = None if span is None else span.end_ns
    elif isinstance(chosen, RoundRef):
        turn = next((turn for turn in run.rounds if turn.round_index == chosen.round_index), None)
        end = None if turn is None else turn.start_ns + turn.draft_ns + turn.verify_ns + turn.rollback_ns
    return None if end is None else end - run.info.start_ns + moved.get(run.run_id, 0)


def maker_of(run: RunLog, role: str, origin: str) -> Chosen | None:
    """What is selected for tokens of an origin: the stage that brought them, or of rejected drafts the last round."""
    if origin == ROLLED_BACK:
        rejecting = [turn for turn in run.rounds if turn.accepted < turn.drafted]
        return RoundRef(run.run_id, rejecting[-1].round_index) if rejecting else None
    name = {VISUAL: "vision", GENERATED: "decode", DRAFTED: "decode"}.get(origin, "prefill")
    span = run.stage(name, role) or run.stage(name, run.info.role)
    return None if span is None else SpanRef(run.run_id, span.span_id)
