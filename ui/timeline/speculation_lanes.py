"""Speculation: the window in which a draft can work while the target prefills, and the rounds."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.decimate import Ints, merged_bars
from evprof.view.lanes import Track
from evprof.view.overlap import Overlap, overlap_of
from evprof.view.timescale import time_text
from ui.run_facts.run_text import NOTHING
from ui.state.selection import RoundRef, TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane, blended
from ui.timeline.scene import Hit, TimelineScene

_WINDOW_TOP, _WINDOW_HEIGHT = 5.0, 18.0
_GROUND = 0.10
ROUND_TOP, ROUND_HEIGHT = 7.0, 14.0
MARK_TOP, MARK_HEIGHT = 25.0, 12.0
_LEAST_MARK_PX = 4.5
"""Where drafted tokens have less room than this, each round shows the accepted share."""


def shown_overlap(scene: TimelineScene) -> tuple[Track, Overlap] | None:
    """The window of the run whose answer is shown, with its track."""
    for _, track in reversed(scene.shown):
        if track.is_answer and (overlap := overlap_of(track.run, track.now(scene.clock_ns))) is not None:
            return track, overlap
    return None


def _edges(scene: TimelineScene, track: Track, overlap: Overlap) -> tuple[float, float]:
    return scene.scale.x(overlap.start_ns - track.zero_ns), scene.scale.x(overlap.end_ns - track.zero_ns)


def paint_overlap_ground(painter: QPainter, scene: TimelineScene, height: float) -> None:
    """The window as a light ground with thin edges, behind a lane's bars."""
    if (shown := shown_overlap(scene)) is None:
        return
    x0, x1 = _edges(scene, *shown)
    color = scene.theme.stage("draft")
    painter.fillRect(QRectF(x0, 0, x1 - x0, height), scene.theme.alpha(color, _GROUND))
    for x in (x0, x1):
        painter.fillRect(QRectF(x, 0, 1, height), scene.theme.alpha(color, 0.4))


def wordings(overlap: Overlap) -> list[str]:
    """Texts of the bar, longest first."""
    took = ms_text(ms_from_ns(overlap.end_ns - overlap.start_ns))
    if overlap.accepted is None or not overlap.drafted:
        tokens = count_text(overlap.drafted, "token")
        rest = f"{tokens} hidden so far" if overlap.drafted else "drafting" if overlap.is_open else "nothing drafted"
        return [f"free window {took} · {rest}", rest]
    counts = f"hidden {overlap.drafted:,} drafted, {overlap.accepted:,} accepted"
    return [f"free window {took} · {counts}", counts, f"{overlap.accepted:,} / {overlap.drafted:,}"]


class OverlapLane(Lane):
    """The free window of parallel prefill."""

    lane_height_px = 30
    tip = "The time in which the draft can work while the target still reads, and what it drafted in it."

    def is_wanted(self) -> bool:
        return any(mode_of(track.run.info.mode).is_parallel and track.is_answer for _, track in self.scene.shown)

    def names(self) -> tuple[str, str]:
        return "Overlap", ""

    def reading(self, t_ns: int) -> str:
        """In the window what it yielded."""
        if (shown := shown_overlap(self.scene)) is None:
            return NOTHING
        track, overlap = shown
        return wordings(overlap)[-1] if overlap.start_ns <= t_ns + track.zero_ns <= overlap.end_ns else NOTHING

    def paint_canvas(self, painter: QPainter) -> None:
        """A bar from the draft's first possible token to the end of the target's prefill, and its counts."""
        if (shown := shown_overlap(self.scene)) is None:
            self.paint_hint(painter, "The window opens when the draft is ready before the target's prefill ends.")
            return
        theme, color = self.scene.theme, self.scene.theme.stage("draft")
        x0, x1 = _edges(self.scene, *shown)
        bar = QRectF(x0, _WINDOW_TOP, max(2.0, x1 - x0 - 1), _WINDOW_HEIGHT)
        painter.setPen(QPen(color, 1, Qt.PenStyle.DashLine))
        painter.setBrush(theme.alpha(color, 0.22))
        painter.drawRoundedRect(bar, 3, 3)
        painter.setPen(theme.text)
        texts = wordings(shown[1])
        if not self.write_inside(painter, bar, texts[:2], SMALL_PX):
            beside = QRectF(bar.right(), bar.top(), self.canvas_width - bar.right(), bar.height())
            self.write_inside(painter, beside, texts, SMALL_PX)

    def hit(self, pos: QPointF) -> Hit | None:
        if (shown := shown_overlap(self.scene)) is None:
            return None
        track, overlap = shown
        start, end = overlap.start_ns - track.zero_ns, overlap.end_ns - track.zero_ns
        t_ns, slack = self.scene.scale.t(pos.x()), 2 * self.scene.scale.ns_per_px
        if not start - slack <= t_ns <= end + slack:
            return None
        facts = [
            ("start", time_text(start - track.shift_ns)),
            ("duration", time_text(end - start)),
            ("hidden drafted", str(overlap.drafted)),
        ]
        if overlap.accepted is not None:
            facts.append(("hidden accepted", str(overlap.accepted)))
        note = "from the draft's first possible token to the end of the target's prefill"
        return Hit("Free window", self.scene.theme.stage("draft"), facts, note, range=TimeRange(start, end))


class RoundLane(Lane):
    """The rounds of the run in a column, if its model gave the answer."""

    lane_height_px = 44
    tip = "Rounds: drafting and verification. Discs are accepted tokens, crosses rejected ones."

    def __init__(self, scene: TimelineScene, column: int) -> None:
        self.column = column
        super().__init__(scene)

    @property
    def key(self) -> str:
        return f"rounds-{self.column}"

    @property
    def track(self) -> Track | None:
        track = self.scene.tracks[self.column]
        return track if track is not None and track.is_answer else None

    def is_wanted(self) -> bool:
        """Imported files may hold no rounds of a speculative run."""
        track = self.track
        if track is None:
            return False
        return len(track.rounds()[0]) > 0 or (mode_of(track.run.info.mode).drafts and track.run.info.imported is None)

    def names(self) -> tuple[str, str]:
        track = self.track
        if track is None or not len(track.rounds()[0]):
            return "Speculation", "no round yet"
        *_, drafted, accepted, _, _ = track.rounds()
        return self.scene.header(self.column) or "Speculation", f"{accepted.sum():,} of {drafted.sum():,} accepted"

    def _round_at(self, t_ns: int, slack: float = 0.0) -> int | None:
        """The place of the round at a moment."""
        if self.track is None:
            return None
        starts, _, _, ends, *_ = self.track.rounds()
        index = int(np.searchsorted(starts, t_ns + slack, side="right")) - 1
        return None if index < 0 or ends[index] < t_ns - slack else index

    def reading(self, t_ns: int) -> str:
        """The round, and how much of it was accepted."""
        index = self._round_at(t_ns)
        if self.track is None or index is None:
            return NOTHING
        *_, drafted, accepted, numbers, _ = self.track.rounds()
        return f"round {int(numbers[index]) + 1} · {accepted[index]:,} of {drafted[index]:,}"

    def paint_canvas(self, painter: QPainter) -> None:
        """Draft and verify bars; below them a mark per drafted token, or the accepted share of narrow rounds."""
        track = self.track
        if track is None or not len(track.rounds()[0]):
            self.paint_hint(painter, "Rounds appear when the draft model starts to propose tokens.")
            return
        paint_overlap_ground(painter, self.scene, self.height())
        starts, drafts, verifies, ends, drafted, accepted, _, begins = track.rounds()
        bars = merged_bars(starts, ends, self.scene.scale, narrow_px=3.0)
        proposed, taken = (_sums(bars.firsts, bars.counts, column) for column in (drafted, accepted))
        parts = (bars.x0.tolist(), bars.x1.tolist(), bars.rows.tolist(), bars.counts.tolist(), proposed, taken)
        steps = [(x1 - x0 - 2) / n for x0, x1, n in zip(parts[0], parts[1], proposed, strict=True) if n]
        step = float(np.percentile(steps, 20)) if steps else 0.0
        narrow: list[QRectF] = []
        shares: list[tuple[QRectF, float]] = []
        for x0, x1, index, count, n, k in zip(*parts, strict=True):
            if count == 1 and x1 - x0 >= 3:
                edges = [self.scene.scale.x(int(times[index])) for times in (starts, drafts, begins, verifies, ends)]
                self._paint_round(painter, edges)
            else:
                narrow.append(QRectF(x0, ROUND_TOP, max(1.0, x1 - x0), ROUND_HEIGHT))
            if n and step < _LEAST_MARK_PX:
                shares.append((QRectF(x0, MARK_TOP, max(1.0, x1 - x0 - 1.0), MARK_HEIGHT), k / n))
            elif n:
                self._paint_marks(painter, x0, (n, k), step)
        self._paint_dense(painter, narrow, shares)

    def _paint_dense(self, painter: QPainter, narrow: list[QRectF], shares: list[tuple[QRectF, float]]) -> None:
        """Narrow rounds, and the accepted share of the tokens drafted in each."""
        theme = self.scene.theme
        low = [
            QRectF(room.left(), room.bottom() - room.height() * k, room.width(), room.height() * k)
            for room, k in shares
        ]
        painter.setPen(Qt.PenStyle.NoPen)
        for color, rooms in (
            (theme.stage("verify"), narrow),
            (blended(theme.panel, theme.bad, 0.35), [room for room, _ in shares]),
            (theme.good, low),
        ):
            painter.setBrush(color)
            painter.drawRects(rooms)

    def _paint_round(self, painter: QPainter, edges: list[float]) -> None:
        """Bars of drafting, verifying and roll-back; a thin line where drafted tokens wait for the verification."""
        theme = self.scene.theme
        waiting = theme.alpha(theme.stage("draft"), 0.8)
        colors = (theme.stage("draft"), waiting, theme.stage("verify"), theme.text_dim)
        for left, right, color in zip(edges, edges[1:], colors, strict=False):
            width = right - left - (1.0 if right - left > 4 else 0.0)
            if color is waiting:
                painter.fillRect(QRectF(left, ROUND_TOP + ROUND_HEIGHT / 2, width, 1), color)
            elif width > 0.2:
                painter.fillRect(QRectF(left, ROUND_TOP, width, ROUND_HEIGHT), color)

    def _paint_marks(self, painter: QPainter, x0: float, counts: tuple[int, int], step: float) -> None:
        """A disc for each accepted token, a cross for each rejected one; `step` is the room of one in px."""
        theme = self.scene.theme
        drafted, accepted = counts
        step = min(step, 11.0)
        half = min(7.0, step - 2.0) / 2
        for place in range(drafted):
            center = QPointF(x0 + step * (place + 0.5), MARK_TOP + MARK_HEIGHT / 2)
            if place < accepted:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.good)
                painter.drawEllipse(center, half, half)
            else:
                painter.setPen(QPen(theme.bad, 1.3))
                painter.drawLine(center + QPointF(-half, -half), center + QPointF(half, half))
                painter.drawLine(center + QPointF(-half, half), center + QPointF(half, -half))

    def hit(self, pos: QPointF) -> Hit | None:
        track = self.track
        index = self._round_at(self.scene.scale.t(pos.x()), 2 * self.scene.scale.ns_per_px)
        if track is None or index is None:
            return None
        starts, drafts, verifies, ends, drafted, accepted, numbers, begins = track.rounds()
        record = track.run.rounds[index]
        facts = [
            ("drafted", str(int(drafted[index]))),
            ("accepted", f"{int(accepted[index])}  (rejected {int(drafted[index]) - int(accepted[index])})"),
            ("emitted", str(record.emitted)),
            ("draft", time_text(int(drafts[index] - starts[index]))),
            ("verify", time_text(int(verifies[index] - begins[index]))),
            ("rollback", time_text(int(ends[index] - verifies[index]))),
        ]
        return Hit(
            f"Round {int(numbers[index]) + 1}",
            self.scene.theme.stage("verify"),
            facts,
            "drafted inside the target's prefill" if record.hidden else "",
            round=RoundRef(track.run.run_id, int(numbers[index])),
            range=TimeRange(int(starts[index]), int(ends[index])),
        )


def _sums(firsts: Ints, counts: Ints, column: Ints) -> list[int]:
    """Sum of a column over each bar's rows; the bars' rows follow one another."""
    if not len(firsts):
        return []
    begin, end = int(firsts[0]), int(firsts[-1] + counts[-1])
    return [int(value) for value in np.add.reduceat(column[begin:end], firsts - begin)]
