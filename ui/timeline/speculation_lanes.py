"""Speculation: the window in which a draft can work while the target prefills, and the rounds."""

from __future__ import annotations

from functools import partial

import numpy as np
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from evprof.core.records import DRAFT, TARGET
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.decimate import Ints, merged_bars
from evprof.view.labels import widest_that_fits
from evprof.view.lanes import Track
from evprof.view.overlap import Overlap, overlap_of, race_of
from evprof.view.timescale import time_text
from ui.state.selection import RoundRef, TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane, blended
from ui.timeline.scene import Hit, TimelineScene

_WINDOW_TOP, _WINDOW_HEIGHT = 5.0, 18.0
_GROUND = 0.10


def shown_overlap(scene: TimelineScene) -> tuple[Track, Overlap] | None:
    """The window of the run whose answer is shown, with its track.

    For a draft's and a target's run that both begin at the axis's zero: the window that they would have had at once.
    """
    for _, track in reversed(scene.shown):
        if track.is_answer:
            found = overlap_of(track.run, track.now(scene.clock_ns))
            if found is not None:
                return track, found
    for draft, target in _racing(scene):
        found = race_of(draft.run, target.run, target.now(scene.clock_ns))
        if found is not None:
            return target, found
    return None


def _racing(scene: TimelineScene) -> list[tuple[Track, Track]]:
    """A draft's and a target's track that begin at one moment of the axis."""
    a, b = scene.tracks[:2]
    if a is None or b is None or a.run is b.run or a.shift_ns != b.shift_ns:
        return []
    return [(one, two) for one, two in ((a, b), (b, a)) if (one.role, two.role) == (DRAFT, TARGET)]


def paint_overlap_ground(painter: QPainter, scene: TimelineScene, height: float) -> None:
    """The window as a light ground with thin edges, behind a lane's bars."""
    found = shown_overlap(scene)
    if found is None:
        return
    track, overlap = found
    x0, x1 = (scene.scale.x(t_ns - track.zero_ns) for t_ns in overlap[:2])
    if x1 < -1 or x0 > scene.scale.width_px + 1:
        return
    color = scene.theme.stage("draft")
    painter.fillRect(QRectF(x0, 0, x1 - x0, height), scene.theme.alpha(color, _GROUND))
    painter.setPen(QPen(scene.theme.alpha(color, 0.55), 1, Qt.PenStyle.DashLine))
    for x in (x0, x1):
        painter.drawLine(QPointF(x, 0), QPointF(x, height))


def wordings(overlap: Overlap) -> list[str]:
    """What the bar says, longest first."""
    took = ms_text(ms_from_ns(overlap.end_ns - overlap.start_ns))
    tokens = count_text(overlap.drafted, "token")
    if overlap.is_thought:
        short = f"{tokens} of the draft fit in"
        return [f"window of {took} if both ran at once · {short}", f"{took} · {short}", short, tokens]
    if overlap.accepted is None or not overlap.drafted:
        rest = f"{tokens} hidden so far" if overlap.drafted else "drafting" if overlap.is_open else "nothing drafted"
        return [f"free window {took} · {rest}", rest]
    counts = f"hidden {overlap.drafted:,} drafted, {overlap.accepted:,} accepted"
    return [f"free window {took} · {counts}", counts, f"{overlap.accepted:,} / {overlap.drafted:,}"]


class OverlapLane(Lane):
    """Shown for parallel prefill, and for a draft's and a target's run side by side."""

    lane_height_px = 30

    def is_wanted(self) -> bool:
        """Only parallel prefill has such a window, and two runs would have one that began at once."""
        is_parallel = any(mode_of(track.run.info.mode).is_parallel and track.is_answer for _, track in self.scene.shown)
        return is_parallel or (bool(_racing(self.scene)) and shown_overlap(self.scene) is not None)

    def names(self) -> tuple[str, str]:
        """The lane alone: one line is all there is room for."""
        return "Overlap", ""

    def paint_canvas(self, painter: QPainter, clip: QRectF) -> None:
        """A dashed bar from the draft's first possible token to the end of the target's prefill."""
        found = shown_overlap(self.scene)
        if found is None:
            self.paint_hint(painter, self._hint())
            return
        track, overlap = found
        theme = self.scene.theme
        x0, x1 = (self.scene.scale.x(t_ns - track.zero_ns) for t_ns in overlap[:2])
        color = theme.stage("draft")
        bar = QRectF(x0, _WINDOW_TOP, max(2.0, x1 - x0 - 1), _WINDOW_HEIGHT)
        painter.setPen(QPen(color, 1, Qt.PenStyle.DashLine))
        painter.setBrush(theme.alpha(color, 0.22))
        painter.drawRoundedRect(bar, 3, 3)
        self._write_counts(painter, bar, overlap)

    def _hint(self) -> str:
        track = next((track for _, track in self.scene.shown if track.is_answer), None)
        if track is not None and track.run.info.is_over:
            return "No overlap: the draft was not ready before the target's prefill ended."
        return "The window opens when the draft is ready before the target's prefill ends."

    def _write_counts(self, painter: QPainter, bar: QRectF, overlap: Overlap) -> None:
        """Inside the bar where it fits there, else beside it: the counts are what the lane is for."""
        theme = self.scene.theme
        width_of = partial(theme.text_width, size_px=SMALL_PX, weight=600)
        visible = bar.intersected(QRectF(0, bar.top(), self.canvas_width, bar.height()))
        listed = wordings(overlap)
        inside = widest_that_fits(listed[:2], visible.width() - 12, width_of)
        painter.setPen(theme.text)
        if inside:
            theme.write(painter, visible.adjusted(6, -1, -6, -1), inside, SMALL_PX, 600)
            return
        beside = QRectF(bar.right() + 7, bar.top() - 1, self.canvas_width - bar.right() - 12, bar.height())
        text = widest_that_fits(listed, beside.width(), width_of)
        if beside.left() + width_of(text) > 0:
            theme.write(painter, beside, text, SMALL_PX, 600)

    def hit(self, pos: QPointF) -> Hit | None:
        found = shown_overlap(self.scene)
        if found is None:
            return None
        track, overlap = found
        start, end = (t_ns - track.zero_ns for t_ns in overlap[:2])
        t_ns, slack = self.scene.scale.t(pos.x()), 2 * self.scene.scale.ns_per_px
        if not start - slack <= t_ns <= end + slack:
            return None
        facts = [
            ("start", time_text(start - track.shift_ns)),
            ("duration", time_text(end - start)),
            ("tokens of the draft" if overlap.is_thought else "hidden drafted", str(overlap.drafted)),
        ]
        if overlap.accepted is not None:
            facts.append(("hidden accepted", str(overlap.accepted)))
        note = "from the draft's first possible token to the end of the target's prefill"
        if overlap.is_thought:
            note = "had both begun at once, neither slowing the other"
        title = "Window if both ran at once" if overlap.is_thought else "Free window"
        return Hit(title, self.scene.theme.stage("draft"), facts, note, range=TimeRange(start, end))


ROUND_TOP, ROUND_HEIGHT = 7.0, 14.0
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
                narrow.append(QRectF(x0, ROUND_TOP, max(1.0, x1 - x0), ROUND_HEIGHT))
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
                middle = ROUND_TOP + ROUND_HEIGHT / 2
                painter.setPen(QPen(theme.alpha(theme.stage("draft"), 0.8), 1, Qt.PenStyle.DotLine))
                painter.drawLine(QPointF(left, middle), QPointF(right - 1, middle))
                painter.setPen(Qt.PenStyle.NoPen)
                continue
            gap = 1.0 if width > 4 else 0.0
            painter.setBrush(color)
            radius = min(2.0, width / 2)
            painter.drawRoundedRect(QRectF(left, ROUND_TOP, width - gap, ROUND_HEIGHT), radius, radius)

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
