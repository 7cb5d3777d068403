"""Speculative rounds: what was drafted, what the target made of it, one mark per drafted token."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from evprof.core.vocabulary.modes import mode_of
from evprof.view.decimate import Ints, merged_bars
from evprof.view.lanes import Track
from evprof.view.timescale import time_text
from ui.state.selection import RoundRef, TimeRange
from ui.timeline.lane import Lane, blended
from ui.timeline.overlap_lane import paint_overlap_ground
from ui.timeline.scene import Hit, TimelineScene

BAR_TOP, BAR_HEIGHT = 7.0, 14.0
MARK_TOP, MARK_HEIGHT = 25.0, 12.0
_LEAST_MARK_PX = 4.5
"""Drafted tokens with less room than this are drawn as the share that was accepted."""


class RoundLane(Lane):
    """The rounds of the run whose text is the answer; `is_of_a`: those of run A, where B has rounds of its own."""

    lane_height_px = 44

    def __init__(self, scene: TimelineScene, *, is_of_a: bool = False) -> None:
        self.is_of_a = is_of_a
        super().__init__(scene)

    @property
    def key(self) -> str:
        """One for each run."""
        return "round-a" if self.is_of_a else "round"

    @property
    def _placed(self) -> tuple[int, Track] | None:
        found = [(place, track) for place, track in self.scene.shown if track.is_answer and len(track.rounds()[0])]
        if self.is_of_a:
            return found[0] if len(found) > 1 else None
        return found[-1] if found else None

    @property
    def track(self) -> Track | None:
        """The shown track that has rounds; the right-hand one where both have, unless this is A's lane."""
        return None if self._placed is None else self._placed[1]

    def is_wanted(self) -> bool:
        """Only speculative runs have rounds, and imported files do not give them."""
        if self.is_of_a:
            return self.track is not None
        return self.track is not None or any(
            mode_of(track.run.info.mode).drafts and track.is_answer and track.run.info.imported is None
            for _, track in self.scene.shown
        )

    def names(self) -> tuple[str, str]:
        """The lane, and accepted of drafted so far."""
        if self._placed is None:
            return "Speculation", "no round yet"
        place, track = self._placed
        *_, drafted, accepted, _, _ = track.rounds()
        header = self.scene.header(place)
        return header or "Speculation", f"{int(accepted.sum()):,} of {int(drafted.sum()):,} accepted"

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """Draft and verify bars; below them a mark per drafted token, or their share where rounds are narrow."""
        track = self.track
        if track is None:
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
            if x1 < clip.left() - 2 or x0 > clip.right() + 2:
                continue
            if count == 1 and x1 - x0 >= 3:
                edges = [self.scene.scale.x(int(times[index])) for times in (starts, drafts, begins, verifies, ends)]
                self._paint_round(painter, edges)
            else:
                narrow.append(QRectF(x0, BAR_TOP, max(1.0, x1 - x0), BAR_HEIGHT))
            if n and step < _LEAST_MARK_PX:
                width = max(1.0, x1 - x0 - (1.0 if x1 - x0 > 3 else 0.0))
                shares.append((QRectF(x0, MARK_TOP, width, MARK_HEIGHT), k / n))
            elif n:
                self._paint_marks(painter, x0, (n, k), step)
        self._paint_dense(painter, narrow, shares)

    def _paint_dense(self, painter: QPainter, narrow: list[QRectF], shares: list[tuple[QRectF, float]]) -> None:
        """Rounds too narrow to be told apart, and what share of each one's drafts was accepted; a colour at a time."""
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
        theme = self.scene.theme
        painter.setPen(Qt.PenStyle.NoPen)
        colors = (theme.stage("draft"), None, theme.stage("verify"), theme.text_dim)
        for left, right, color in zip(edges, edges[1:], colors, strict=False):
            width = right - left
            if width <= 0.2:
                continue
            if color is None:
                # What was drafted early waits to be checked: a thin line joins the two.
                middle = BAR_TOP + BAR_HEIGHT / 2
                painter.setPen(QPen(theme.alpha(theme.stage("draft"), 0.8), 1, Qt.PenStyle.DotLine))
                painter.drawLine(QPointF(left, middle), QPointF(right - 1, middle))
                painter.setPen(Qt.PenStyle.NoPen)
                continue
            gap = 1.0 if width > 4 else 0.0
            painter.setBrush(color)
            radius = min(2.0, width / 2)
            painter.drawRoundedRect(QRectF(left, BAR_TOP, width - gap, BAR_HEIGHT), radius, radius)

    def _paint_marks(self, painter: QPainter, x0: float, counts: tuple[int, int], step: float) -> None:
        """A mark for each of the drafted tokens; `step` is the room of one, the same for all rounds in view."""
        theme = self.scene.theme
        drafted, accepted = counts
        step = min(step, 11.0)
        size = min(7.0, step - 2.0)
        middle = MARK_TOP + MARK_HEIGHT / 2
        for place in range(drafted):
            center = QPointF(x0 + step * (place + 0.5), middle)
            if place < accepted:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(theme.good)
                painter.drawEllipse(center, size / 2, size / 2)
            else:
                painter.setPen(QPen(theme.bad, 1.3))
                half = size / 2 - 0.5
                painter.drawLine(center + QPointF(-half, -half), center + QPointF(half, half))
                painter.drawLine(center + QPointF(-half, half), center + QPointF(half, -half))

    def hit(self, pos: QPointF) -> Hit | None:
        """The round under the pointer."""
        track = self.track
        if track is None:
            return None
        starts, drafts, verifies, ends, drafted, accepted, numbers, begins = track.rounds()
        t_ns = self.scene.scale.t(pos.x())
        slack = 2 * self.scene.scale.ns_per_px
        index = int(np.searchsorted(starts, t_ns + slack, side="right")) - 1
        if index < 0 or ends[index] < t_ns - slack:
            return None
        record = track.run.rounds[index]
        rejected = int(drafted[index]) - int(accepted[index])
        facts = [
            ("drafted", str(int(drafted[index]))),
            ("accepted", f"{int(accepted[index])}  (rejected {rejected})"),
            ("emitted", str(record.emitted)),
            ("draft", time_text(int(drafts[index] - starts[index]))),
            ("verify", time_text(int(verifies[index] - begins[index]))),
            ("rollback", time_text(int(ends[index] - verifies[index]))),
        ]
        note = "drafted inside the target's prefill" if record.hidden else ""
        return Hit(
            f"Round {int(numbers[index]) + 1}",
            self.scene.theme.stage("verify"),
            facts,
            note,
            round=RoundRef(track.run.run_id, int(numbers[index])),
            range=TimeRange(int(starts[index]), int(ends[index])),
        )


def _sums(firsts: Ints, counts: Ints, column: Ints) -> list[int]:
    """Sum of a column over each bar's rows; the bars' rows follow one another."""
    if not len(firsts):
        return []
    begin, end = int(firsts[0]), int(firsts[-1] + counts[-1])
    return [int(value) for value in np.add.reduceat(column[begin:end], firsts - begin)]
