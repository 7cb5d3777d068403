"""The window in which a draft can decode while the target still prefills: a lane that counts its tokens as they come,
and its light ground in other lanes. Of two runs it is the window they would have had at once.
"""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from evprof.core.records import DRAFT, TARGET
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.core.vocabulary.modes import mode_of
from evprof.view.labels import widest_that_fits
from evprof.view.lanes import Track
from evprof.view.overlap import Overlap, overlap_of, race_of
from evprof.view.timescale import time_text
from ui.state.selection import TimeRange
from ui.style.theme import SMALL_PX
from ui.timeline.lane import Lane
from ui.timeline.scene import Hit, TimelineScene

BAR_TOP, BAR_HEIGHT = 5.0, 18.0
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
        bar = QRectF(x0, BAR_TOP, max(2.0, x1 - x0 - 1), BAR_HEIGHT)
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
        """The window under the pointer."""
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
