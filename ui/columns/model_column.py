"""One model: its head, its input, its stages, its answer and its counters.

The parts are separate rows, so that `ModelPair` can line both models up on one grid.
"""

from __future__ import annotations

from textwrap import shorten

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLayout, QStackedLayout, QWidget

from evprof.core.protocols import Clock, monotonic_ns
from evprof.core.records import DRAFT
from evprof.core.run_info import FAILED, ModelFacts
from evprof.core.sample import Sample
from evprof.core.texts import plain
from evprof.core.units import MIB, bytes_texts, ms_from_ns, ms_text, percent_text
from evprof.core.vocabulary.drafters import KINDS
from evprof.core.vocabulary.families import READ_BY
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.figures.decoding import has_pieces, output_length
from evprof.view.columns import ShownModel, takes_draft_model
from evprof.view.labels import model_title
from ui.columns.stage_strip import CounterRow, StageStrip
from ui.columns.token_text import TokenText
from ui.players.event_player import EventPlayer
from ui.players.frame_player import INPUT_PX, FramePlayer, video_player
from ui.players.frame_strip import FramePictures, FrameStrip
from ui.players.look_choice import LookChoice
from ui.players.picture_feed import PlayerInput
from ui.players.play_clock import PlayClock
from ui.run_facts.run_text import (
    NOTHING,
    chips,
    counters,
    drafter_kind,
    expected_line,
    lacking,
    provenance_tip,
    role_name,
    short_chips,
    stage_now,
)
from ui.state.selection import Selection
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role
from ui.widgets.label import Label, elided_text
from ui.widgets.panel_parts import EmptyState, ToneLabel, wrapped

LOSSY = "This answer may differ from the target's own: a trained map made its cache from the draft's."

_STATE_WIDTH, _LEAST_NAME_WIDTH = 80, 64
_WIDE, _NARROW = 480, 320
"""Least widths in px with the family and the part, and with the arithmetic alone."""


class ModelHead(QWidget):
    """Name, family · arithmetic · device, part in the run, and what it is doing now.

    In a narrow column the part and the family are left out.
    """

    def __init__(self, side: str) -> None:
        super().__init__()
        self._side = side
        self._model: ModelFacts | None = None
        self._header = in_role(Label(), "small")
        self._header.hide()
        self._name = in_role(Label(), "title")
        self._chips = in_role(Label(), "chip")
        self._part = in_role(Label(), "chip")
        self._lossy = in_role(Label("lossy"), "warn-chip")
        self._lossy.setToolTip(LOSSY)
        self._lossy.hide()
        self._state = ToneLabel(wraps=False, alignment=Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._state.setMinimumWidth(_STATE_WIDTH)
        self.setFixedHeight(24)
        row = QHBoxLayout(self)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        for widget in (self._header, self._name, self._lossy, self._chips, self._part):
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        row.addWidget(self._state)

    def set_header(self, text: str) -> None:
        """`A · run 2` where two runs are compared; empty elsewhere."""
        if text != self._header.text():
            self._header.setText(text)
            self._header.setVisible(bool(text))
            self._fit()

    def show_column(self, column: ShownModel | None) -> None:
        """Shows a model of a run; called again while the run goes on."""
        from evprof.metrics.speculation.outcome import is_lossy

        model = column.run.info.models.get(column.role) if column else None
        part = self._part_of(column)
        lossy = column is not None and column.is_answer and is_lossy(column.run)
        state = stage_now(column.run, column.role) if column else ""
        known = (self._model, self._part.text(), not self._lossy.isHidden(), self._state.text)
        is_failed = column is not None and column.run.info.status == FAILED
        self._state.say(state, "bad" if is_failed else "dim")
        if (model, part, lossy, state) != known or not self._name.text():
            self._model = model
            self._part.setText(part)
            self._lossy.setVisible(lossy)
            self._fit()
        self._state.setToolTip(plain(provenance_tip(column.run)) if column else "")

    def _part_of(self, column: ShownModel | None) -> str:
        """What the model is in its run; of a speculative run beside another one also who drafts."""
        if column is None or not self._header.text() or column.role == DRAFT or not takes_draft_model(column.run):
            return column.role if column else ""
        return f"{column.role} · drafts: {model_title(column.run, DRAFT)}"

    def minimumSizeHint(self) -> QSize:
        return QSize(180, 24)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Leaves out the part and the family in a narrow column, and cuts the name at the room that is left."""
        model, width = self._model, self.width()
        name = model.name if model else role_name(self._side)
        self._chips.setText(chips(model) if width >= _WIDE else short_chips(model) if width >= _NARROW else "")
        self._chips.setVisible(bool(self._chips.text()))
        self._part.setVisible(width >= _WIDE and bool(self._part.text()))
        used = max(_STATE_WIDTH, self._state.sizeHint().width()) + 2 * GRID
        for label in (self._header, self._lossy, self._chips, self._part):
            label.ensurePolished()  # measured before they are shown, labels have another font
            used += 0 if label.isHidden() else label.sizeHint().width() + GRID
        room = max(_LEAST_NAME_WIDTH, width - used)
        metrics = QFontMetrics(self._name.font())
        self._name.setText(elided_text(metrics, name, Qt.TextElideMode.ElideRight, room))
        self._name.setToolTip(plain(f"{name}\n{chips(model)}".strip()))


_LEAST_INPUT_PX, _MOST_INPUT_PX, _LOWEST_INPUT_PX = 80, 360, 56
"""Heights of the inputs in logical px: alone, and beside a run's frames in the lowest window."""
_LONGEST_ERROR = 240
_EMPTY = {
    "draft": "The event model's answer appears here, token by token, while it runs.",
    "target": "The video model's answer appears here. In speculative runs accepted tokens are underlined, "
    "rejected ones struck through, the target's own dotted.",
}

_MAPPED = (
    "No drafts in this run",
    "The event model wrote no answer: a trained map turned its cache into the target's.",
)
_NO_TEXT = "No answer in this file", "It gives times and counts for this row, but no generated text."


class ModelColumn:
    """The rows of one model: `head`, `input`, `strip`, `counters`, `answer`, `expected`. Not a widget itself."""

    def __init__(
        self,
        side: str,
        selection: Selection,
        themes: ThemeHolder,
        clock: PlayClock,
        *,
        look: LookChoice | None = None,
        moment: Clock = monotonic_ns,
    ) -> None:
        """`side` is "draft" (left, events) or "target" (right, video); `look` is how events are drawn."""
        self.side = side
        self._is_alone = self._is_low = False
        self._absence = "No answer yet", _EMPTY[side]
        self.head = ModelHead(side)
        self._players: dict[str, FramePlayer] = {
            "events": EventPlayer(themes, clock, look),
            "video": video_player(themes, clock),
        }
        self._kind = READ_BY[side]
        for kind, player in self._players.items():
            player.setVisible(kind == self._kind)
        self.frames = FrameStrip(themes, clock)
        self.input = QWidget()
        beside(*self._players.values(), self.frames, on=self.input, spacing=GRID)
        self.strip = StageStrip(selection, themes, clock=moment)
        self.counters = CounterRow(themes)
        self.set_alone(False)
        self.text = TokenText(selection, themes)
        self.failure = wrapped("", "bad")
        self.failure.hide()
        self.expected = ToneLabel(wraps=True, alignment=Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        self.expected.hide()
        self.answer = QWidget()
        self._stack = QStackedLayout(self.answer)
        self.empty = EmptyState("No answer yet", _EMPTY[side])
        self._stack.addWidget(self.text)
        self._stack.addWidget(self.empty)
        self.pictures: FramePictures | None = None
        self.column: ShownModel | None = None
        self._version = -1
        self.show_column(None)

    @property
    def players(self) -> list[FramePlayer]:
        return list(self._players.values())

    @property
    def player(self) -> FramePlayer:
        return self._players[self._kind]

    def set_alone(self, is_alone: bool) -> None:
        """Whether the input is all there is to look at, or stands in a low row beside a run's frames."""
        self._is_alone = is_alone
        self.input.setMaximumHeight(_MOST_INPUT_PX if is_alone else INPUT_PX)
        self.set_low(self._is_low)
        for part in (self.frames, self.strip, self.counters):
            part.setVisible(not is_alone)
        for player in self.players:
            player.set_alone(is_alone)

    def set_low(self, is_low: bool) -> None:
        """Whether the window is so low that even a row beside frames gives up height."""
        self._is_low = is_low
        self.input.setMinimumHeight(_LEAST_INPUT_PX if self._is_alone else _LOWEST_INPUT_PX if is_low else INPUT_PX)

    def explain_absence(self, other: ShownModel | None) -> None:
        """Says why there is no model on this side: no run yet, or the other side's run has none here."""
        is_alone = other is not None and mode_of(other.run.info.mode).is_paired and not takes_draft_model(other.run)
        if other is None or not (is_alone or other.run.info.is_over):
            self._absence = "No answer yet", _EMPTY[self.side]
        elif not is_alone:
            self._absence = "No run here", f"Drag a second run here to compare it with run {other.run.run_id}."
        elif other.run.info.imported is not None:
            self._absence = "No event model in this run", "The file does not tell what its server drafts with."
        else:
            kind = drafter_kind(other.run)
            self._absence = "No event model in this run", KINDS[kind].absence if kind in KINDS else ""

    def show_column(self, column: ShownModel | None, sample: Sample | None = None) -> None:
        """Shows one model of a run, or, before any run, just the input of a sample."""
        from evprof.metrics.configurations.settings_text import kind_read  # too slow for the window's start

        if column != self.column:
            self.column = column
            self._version = -1
            self.pictures = FramePictures(column) if column else None
            if self.pictures is not None:
                self.pictures.update()
            self.frames.show_pictures(self.pictures, _lacking_pictures(column))
            self.strip.show_column(column)
        kind = kind_read(*column) if column is not None else READ_BY[self.side]
        if kind != self._kind:  # any model may stand on either side; its input decides what plays
            self.player.show_input(None, None)
            self.player.hide()
            self._kind = kind
            self.player.show()
        if column is not None:
            sample = column.run.info.sample
        self.player.show_input(None if sample is None else PlayerInput.of(sample, self._kind), self.pictures)
        self.refresh()

    def refresh(self) -> None:
        self.strip.refresh()
        column = self.column
        if column is None:
            self.head.show_column(None)
            self.counters.set_entries([])
            self._show_empty(self._absence)
            self.failure.hide()
            self.expected.hide()
            return
        if column.run.version == self._version:
            return
        self._version = column.run.version
        if self.pictures is not None and self.pictures.update():
            self.frames.update()
            self.player.refresh()
        self.head.show_column(column)
        self.counters.set_entries(_entries(column))
        sentence = column.run.info.error or ""
        # Errors of other programs may be a page long.
        self.failure.setText(shorten(sentence, _LONGEST_ERROR, placeholder=" …"))
        self.failure.setToolTip(plain(sentence))
        self.failure.setVisible(bool(sentence) and column.is_answer)
        from evprof.metrics.facts import expected_text

        expected, tone = expected_line(column.run) if column.is_answer else ("", "dim")
        self.expected.say(plain(expected), tone)
        self.expected.setToolTip(plain(expected_text(column.run)) if expected else "")
        self.expected.setVisible(bool(expected))
        self._show_answer(column)

    def _show_answer(self, column: ShownModel) -> None:
        """Tokens; of an imported run without tokens the plain text, where its file has one."""
        run = column.run
        text = run.info.text if column.is_answer else None
        if mode_of(run.info.mode).maps_cache and not column.is_answer:
            self._show_empty(_MAPPED)
        elif run.info.imported is None or has_pieces(run) or (not text and run.info.status == FAILED):
            self._stack.setCurrentWidget(self.text)
            self.text.show_column(column)
        elif text:
            self._stack.setCurrentWidget(self.text)
            self.text.show_text(text)
        else:
            self._show_empty(_NO_TEXT)

    def _show_empty(self, words: tuple[str, str]) -> None:
        self.text.show_column(None)
        self.empty.say(*words)
        self._stack.setCurrentWidget(self.empty)

    def close(self) -> None:
        """Ends the players' threads."""
        for player in self.players:
            player.close_feed()


def _lacking_pictures(column: ShownModel | None) -> str:
    if column is None:
        return ""
    if column.run.info.cell and column.run.info.imported is None and column.run.info.is_over:
        return "A suite keeps the pictures of the first row of each configuration."
    return lacking([column.run], "the pictures the model saw")


def _entries(column: ShownModel) -> list[tuple[str, str]]:
    figures, run = counters(column), column.run
    imported = run.info.imported
    kv = ("KV", NOTHING if figures.kv_bytes is None else bytes_texts([figures.kv_bytes, MIB])[0])
    pace = ("tok/s", NOTHING if figures.tokens_per_s is None else f"{figures.tokens_per_s:,.1f}")
    if imported is not None:
        row = ("imported", f"row {imported.row}")
        counted = output_length(run)
        return [("tokens", NOTHING if counted is None else str(counted)), pace, row] if column.is_answer else [row]
    if column.is_answer:
        first = figures.first_token_ns
        ttft = ("TTFT", NOTHING if first is None else ms_text(ms_from_ns(first)))
        return [("tokens", str(figures.tokens)), pace, ttft, kv]
    if mode_of(run.info.mode).maps_cache:
        return [kv]
    accepted = sum(entry.accepted for entry in run.rounds)
    share = percent_text(accepted / figures.tokens) if figures.tokens else NOTHING
    return [("drafted", str(figures.tokens)), ("accepted", str(accepted)), ("rate", share), kv]
