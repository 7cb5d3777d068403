"""The streaming answer: it follows its run, and its tokens are there to hover, click, select and copy."""

from __future__ import annotations

from bisect import bisect_right

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from evprof.core.records import ORIGIN_DRAFT
from evprof.core.units import ms_from_ns, ms_text
from evprof.view.columns import ShownModel
from ui.columns.answer import AnswerFlow, TokenMark
from ui.columns.chosen_marks import chosen_of, marks_of
from ui.columns.painted_text import LINE_PX, PaintedText, chance_of
from ui.columns.text_look import TextLook
from ui.run_facts.odds import chance_text
from ui.state.selection import Chosen, RoundRef, Selection, TimeRange, TokenRef
from ui.style.theme import ThemeHolder
from ui.widgets.drawn import show_tip

MANY_TOKENS = 200
"""Of a longer answer so many tokens are laid out at a time, and the window is free for a moment in between."""

_PAUSE_MS = 6


class TokenText(PaintedText):
    """One model's text, following its run. Scrolls along while text arrives, until the person scrolls away."""

    def __init__(
        self,
        selection: Selection,
        themes: ThemeHolder,
        look: TextLook | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(themes, look, parent)
        self._selection = selection
        self._known_odds = 0
        self._anchor: int | None = None
        self._was_dragged = False
        self._is_following = True
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(_PAUSE_MS)
        self._rest.timeout.connect(self._take_more)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Generated text")
        self.viewport().setMouseTracking(True)
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.verticalScrollBar().valueChanged.connect(self._note_scroll)
        self._look.changed.connect(self._show_all)
        selection.chosen_changed.connect(self._show_chosen)

    @property
    def flow(self) -> AnswerFlow | None:
        """The marks that are shown."""
        return self._flow

    @property
    def marked(self) -> list[int]:
        """Indices of the marks that belong to what is selected."""
        return list(self._marked)

    @property
    def shown_text(self) -> str:
        """Everything that is to be read, rejected tokens included unless they are folded."""
        return self._blocks.text

    def show_column(self, column: ShownModel | None) -> None:
        """Shows the text of one model of a run: its answer, or what it proposed to the answering model."""
        run = column.run if column else None
        proposals = column is not None and not column.is_answer
        if self._flow is None and run is None:
            return
        if self._flow is not None and run is self._flow.run and proposals == self._flow.proposals_only:
            self.refresh()
            return
        self._flow = None if run is None else AnswerFlow(run, proposals_only=proposals)
        self._is_following = True
        if self._flow is not None:
            self._take_in(self._flow)
        self._has_caret = self._flow is not None and not self._flow.run.info.is_over
        self._show_all()
        if not self._has_caret:
            # From its beginning, wherever the text before was scrolled to, or where something of it is selected.
            self.verticalScrollBar().setValue(0)
            self._show_chosen(self._selection.chosen)

    def _show_all(self) -> None:
        """Lays out everything, as the look has it."""
        self._selected = None
        self._put(0)

    def refresh(self) -> None:
        """Takes in what the run has gained; repaints only when something changed."""
        if not self._rest.isActive():
            self._take_more()

    def _take_more(self) -> None:
        if self._flow is None:
            return
        changed = self._take_in(self._flow)
        has_caret = not self._flow.run.info.is_over
        odds = self._flow.run.count("alternatives") if self._look.shows_confidence else 0
        if changed is not None:
            self._put(changed)
        if has_caret != self._has_caret or odds != self._known_odds:
            self._has_caret, self._known_odds = has_caret, odds
            self.viewport().update()

    def _take_in(self, flow: AnswerFlow) -> int | None:
        """Takes in what is new, of much a part, the rest a moment later; the first mark that changed."""
        changed = flow.update(MANY_TOKENS)
        self._rest.stop()
        if flow.has_more:
            self._rest.start()
        return changed

    def _put(self, changed: int) -> None:
        """Shows the marks from the index `changed` on anew."""
        marks = self._flow.marks if self._flow is not None else []
        start = self._starts[changed] if changed < len(self._starts) else len(self._blocks.text)
        start = start if changed else 0
        del self._starts[changed:], self._texts[changed:]
        place = start
        for mark in marks[changed:]:
            text = "" if mark.is_rejected and self._look.folds_rejected else _shown(mark)
            # The space before the first word is no text, also where what stood before it is folded away.
            text = text if place else text.removeprefix(" ")
            self._texts.append(text)
            self._starts.append(place)
            place += len(text)
        self._blocks.change(start, "".join(self._texts[changed:]))
        if self._selected is not None and self._selected[1] > start:
            self._selected = None
        self._marked = marks_of(self._flow, self._selection.chosen)
        self._note_extent()
        self.viewport().update()

    def complete(self) -> None:
        """Takes in everything at once: who copies or looks for a token wants all of the answer."""
        while self._flow is not None and self._flow.has_more:
            self._take_more()

    def plain_text(self) -> str:
        """The selected text, or the whole answer: without rejected tokens and control pieces."""
        self.complete()
        if self._flow is None:
            return ""
        if self._selected is None:
            return self._flow.plain_text()
        start, stop = self._selected
        parts = []
        for mark, text, begin in zip(self._flow.marks, self._texts, self._starts, strict=True):
            if mark.is_answer and begin < stop and begin + len(text) > start:
                parts.append(text[max(0, start - begin) : stop - begin])
        return "".join(parts)

    def mark_at(self, point: QPoint) -> TokenMark | None:
        """The mark under a point of the viewport."""
        if self._flow is None:
            return None
        at = self._blocks.character_at(point.x() - self._margin(), point.y() + self._offset())
        index = -1 if at is None else bisect_right(self._starts, at) - 1
        return self._flow.marks[index] if 0 <= index < len(self._flow.marks) else None

    def describe(self, mark: TokenMark) -> str:
        """What the tool tip says of a mark: piece, id, origin, round, time and latency."""
        run = self._flow.run if self._flow else None
        first = mark.tokens[0]
        ids = " ".join(str(token.token_id) for token in mark.tokens if token.known_id is not None)
        lines = [f"{mark.text.strip() or first.piece!r}" + (f"   id {ids}" if ids else "")]
        known = "lossy: need not be the target's own" if mark.origin == ORIGIN_DRAFT else mark.origin
        origin = known if mark.round_index < 0 else f"{known} in round {mark.round_index + 1}"
        lines.append(f"position {mark.position} · {origin}")
        zero = run.info.start_ns if run else None
        times = [] if zero is None else [f"at {ms_text(ms_from_ns(first.t_ns - zero))}"]
        if mark.latency_ns is not None:
            times.append(f"{ms_text(ms_from_ns(mark.latency_ns))} after the token before")
        if times:
            lines.append(" · ".join(times))
        chance = None if self._flow is None else chance_of(self._flow, mark)
        if chance is not None:
            lines.append(f"probability {chance_text(chance)}")
        return "\n".join(lines)

    # Qt's own

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._lay_out()
        self._note_extent()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._anchor = self._gap_at(event.position())
            self._was_dragged = False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._anchor is None:
            return
        here = self._gap_at(event.position())
        if here != self._anchor:
            self._was_dragged = True
        self._selected = (min(here, self._anchor), max(here, self._anchor)) if self._was_dragged else None
        self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton or self._anchor is None:
            return
        self._anchor = None
        if self._was_dragged:
            return
        self._selected = None
        mark = self.mark_at(event.position().toPoint())
        run = self._flow.run if self._flow else None
        self._selection.select(None if mark is None or run is None else chosen_of(run.run_id, mark))
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.complete()
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.plain_text())
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self._selected = (0, len(self._blocks.text))
            self.viewport().update()
        elif event.key() in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._step(-1 if event.key() == Qt.Key.Key_Left else 1)
        else:
            super().keyPressEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        return show_tip(event, self.viewport(), self._tip) or super().viewportEvent(event)

    def _tip(self, point: QPoint) -> str:
        mark = self.mark_at(point)
        return "" if mark is None else self.describe(mark)

    def _note_extent(self) -> None:
        bar = self.verticalScrollBar()
        height = self.viewport().height()
        follows = self._is_following
        # The scroll bar's place is always kept free, so that its coming and going never wraps the text anew.
        bar.setPageStep(height)
        bar.setSingleStep(int(LINE_PX))
        bar.setRange(0, max(0, round(self._blocks.height) - height))
        if follows and self._flow is not None and not self._flow.run.info.is_over:
            bar.setValue(bar.maximum())
        self._is_following = follows

    def _note_scroll(self, value: int) -> None:
        self._is_following = value >= self.verticalScrollBar().maximum() - 2
        self.viewport().update()

    def _gap_at(self, point: QPointF) -> int:
        return self._blocks.character_at(point.x() - self._margin(), point.y() + self._offset(), between=True) or 0

    # Selection

    def _step(self, by: int) -> None:
        flow = self._flow
        if flow is None or not flow.marks:
            return
        answer = [mark.position for mark in flow.marks if not mark.is_rejected]
        chosen, here = self._selection.chosen, None
        if isinstance(chosen, TokenRef | RoundRef) and chosen.run_id == flow.run.run_id:
            here = chosen.position if isinstance(chosen, TokenRef) else chosen.drafted
        if here is None or not answer:
            target = answer[0] if answer else 0
        else:
            target = answer[min(max(bisect_right(answer, here) - 1 + by, 0), len(answer) - 1)]
        self._selection.select(TokenRef(flow.run.run_id, target))

    def _show_chosen(self, chosen: Chosen | None) -> None:
        if isinstance(chosen, TokenRef | RoundRef):
            self.complete()
        self._marked = marks_of(self._flow, chosen)
        if self._marked and not isinstance(chosen, TimeRange):
            start = self._starts[self._marked[0]]
            top, bar = self._blocks.top_of(start), self.verticalScrollBar()
            if not bar.value() <= top <= bar.value() + self.viewport().height() - LINE_PX:
                bar.setValue(round(top - self.viewport().height() / 3))
        self.viewport().update()


def _shown(mark: TokenMark) -> str:
    """The characters that stand for a mark on screen; control pieces get a space before them."""
    return f" {mark.tokens[0].piece}" if mark.is_control else mark.text
