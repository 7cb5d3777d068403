"""Which part of the time is seen: everything, what a run adds to, or what a person zoomed and moved to."""

from __future__ import annotations

from PySide6.QtCore import QObject

from evprof.view.timescale import Timescale, around, fitted, followed
from ui.state.selection import Selection, TimeRange
from ui.timeline.scene import TimelineScene

_KEY_ZOOM = 1.5
_KEY_PAN = 0.25


class Zooming(QObject):
    """What mouse and keys do to the view; the view that was chosen is the selection's."""

    def __init__(self, scene: TimelineScene, selection: Selection, parent: QObject) -> None:
        super().__init__(parent)
        self._scene = scene
        self._selection = selection

    def take_scale(self, width_px: float) -> bool:
        """Works out the visible range; returns whether it changed."""
        scene, chosen = self._scene, self._selection.view_range
        if chosen is not None:
            wanted = Timescale(chosen[0], max(chosen[1], chosen[0] + 1), width_px)
        elif scene.is_running:
            wanted = followed(scene.scale, scene.extent(), width_px)
        else:
            wanted = fitted(scene.extent(), width_px)
        changed = wanted != scene.scale
        scene.scale = wanted
        return changed

    def zoom(self, factor: float, at_px: float) -> None:
        """Zooms in (factor > 1) or out around a position of the drawing area; following ends."""
        extent = self._scene.extent()
        longest = max(2 * (extent[1] - extent[0]), 1_000_000)
        self._show(self._scene.scale.zoomed(factor, at_px, longest_ns=longest))

    def zoom_middle(self, factor: float) -> None:
        """Zooms around the middle of the view."""
        self.zoom(factor, self._scene.scale.width_px / 2)

    def step_in(self) -> None:
        """Zooms as far as one press of a key does."""
        self.zoom_middle(_KEY_ZOOM)

    def step_out(self) -> None:
        """The same, outwards."""
        self.zoom_middle(1 / _KEY_ZOOM)

    def pan(self, by_px: float) -> None:
        """Moves the view; following ends."""
        self._show(self._scene.scale.panned(by_px))

    def step_aside(self, by: int) -> None:
        """Moves the view as far as one press of a key does: to the right (`by` 1) or left (-1)."""
        self.pan(by * _KEY_PAN * self._scene.scale.width_px)

    def _show(self, scale: Timescale) -> None:
        if not self._scene.shown:
            return
        kept = scale.within(self._scene.extent())
        self._selection.set_view_range((kept.start_ns, kept.end_ns))

    def look_at(self, view: TimeRange) -> None:
        """Shows just this, as far as there is something."""
        self._show(Timescale(view.start_ns, max(view.end_ns, view.start_ns + 1), self._scene.scale.width_px))

    def fit(self, *_: object) -> None:
        """Shows everything, and follows a run that is still going."""
        self._selection.set_view_range(None)

    def zoom_to(self, wanted: TimeRange | None) -> None:
        """Shows a range with a little air on both sides; None: everything."""
        if wanted is None:
            self.fit()
            return
        margin = max(500, round((wanted[1] - wanted[0]) * 0.06))
        self._selection.set_view_range((wanted[0] - margin, wanted[1] + margin))

    def focus_selection(self) -> None:
        """Zooms to what is selected, where it takes time."""
        chosen = self._scene.range_of(self._selection.chosen)
        if chosen is not None:
            self.zoom_to(chosen)

    def bring_into_view(self) -> None:
        """Moves a zoomed view to what is selected, as far as it must; what fills the view is in sight."""
        chosen, view = self._scene.range_of(self._selection.chosen), self._selection.view_range
        if chosen is None or view is None or (chosen.start_ns <= view.start_ns and view.end_ns <= chosen.end_ns):
            return
        if (moved := around(chosen, view)) is not None:
            self._selection.set_view_range(moved)
