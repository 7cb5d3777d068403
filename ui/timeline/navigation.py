"""Which part of the time is visible, keys that move the view while they are held, and the history of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent

from evprof.view.columns import RunPair
from evprof.view.timescale import Timescale, around, fitted, followed
from ui.state.selection import Chosen, Selection, TimeRange
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
        self.zoom(factor, self._scene.scale.width_px / 2)

    def step_in(self) -> None:
        """Zooms as far as one press of a key does."""
        self.zoom_middle(_KEY_ZOOM)

    def step_out(self) -> None:
        self.zoom_middle(1 / _KEY_ZOOM)

    def pan(self, by_px: float) -> None:
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


_CROSS = {
    Qt.Key.Key_W: "w",
    Qt.Key.Key_A: "a",
    Qt.Key.Key_S: "s",
    Qt.Key.Key_D: "d",
    Qt.Key.Key_Up: "w",
    Qt.Key.Key_Left: "a",
    Qt.Key.Key_Down: "s",
    Qt.Key.Key_Right: "d",
}
"""The direction of a held key: "w" and "s" zoom, "a" and "d" pan."""

_GLIDE_MS = 16
_ZOOM_PER_FRAME = 1.06
_PAN_PER_FRAME_PX = 22.0


class HeldKeys(QObject):
    """Turns keys that are held into zoom factors and px to pan by, sixty times a second."""

    def __init__(self, zoom: Callable[[float], None], pan: Callable[[float], None], parent: QObject) -> None:
        super().__init__(parent)
        self._zoom, self._pan = zoom, pan
        self._held: set[str] = set()
        self._timer = QTimer(self)
        self._timer.setInterval(_GLIDE_MS)
        self._timer.timeout.connect(self._glide)

    def press(self, event: QKeyEvent) -> bool:
        """Acts on a key press; False when the key means nothing here."""
        plain = not event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        cross = _CROSS.get(Qt.Key(event.key())) if plain else None
        if cross is not None and not event.isAutoRepeat():
            self._held.add(cross)
            self._glide()
            self._timer.start()
        return cross is not None

    def release(self, event: QKeyEvent) -> bool:
        """Takes note of a released key; False when it means nothing here."""
        cross = _CROSS.get(Qt.Key(event.key()))
        if cross is None or event.isAutoRepeat():
            return cross is not None
        self._held.discard(cross)
        if not self._held:
            self._timer.stop()
        return True

    def let_go(self) -> None:
        """All keys: a window that loses the keyboard never sees them released."""
        self._held.clear()
        self._timer.stop()

    def _glide(self) -> None:
        if "w" in self._held:
            self._zoom(_ZOOM_PER_FRAME)
        if "s" in self._held:
            self._zoom(1 / _ZOOM_PER_FRAME)
        if "a" in self._held:
            self._pan(-_PAN_PER_FRAME_PX)
        if "d" in self._held:
            self._pan(_PAN_PER_FRAME_PX)


SETTLED_MS = 400
"""A view that lasts this long is one the person was at; those passed on the way to it are not kept."""

MOST_STEPS = 200

NOTHING: RunPair = (None, None)


class _Stand(NamedTuple):
    runs: RunPair
    cell: str
    view: TimeRange | None
    chosen: tuple[type | None, Chosen | None]


class ViewHistory(QObject):
    """Notes where the selection stands once it rests."""

    def __init__(
        self, selection: Selection, has_run: Callable[[int], bool] = lambda _: True, parent: QObject | None = None
    ) -> None:
        """`has_run` tells whether a run is there: what was seen of one that is deleted is passed over."""
        super().__init__(parent)
        self._selection = selection
        self._has_run = has_run
        self._stands: list[_Stand] = [self._now()]
        self._place = 0
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(SETTLED_MS)
        self._rest.timeout.connect(self.note)
        for signal in (selection.chosen_changed, selection.view_range_changed, selection.runs_changed):
            signal.connect(self._begin)

    def _begin(self, *_: object) -> None:
        self._rest.start()

    def _now(self) -> _Stand:
        chosen = self._selection.chosen
        # Tuples of two kinds may be equal.
        kind = None if chosen is None else type(chosen)
        return _Stand(self._selection.runs, self._selection.cell, self._selection.view_range, (kind, chosen))

    def note(self) -> None:
        """Keeps where the selection stands now; what lay ahead is let go."""
        self._rest.stop()
        now = self._now()
        if now == self._stands[self._place]:
            return
        if self._stands == [self._stands[0]._replace(runs=NOTHING)]:
            self._stands = [now]  # from what a session shows first there is no way back to the empty window before it
            return
        self._stands = [*self._stands[: self._place + 1], now][-MOST_STEPS:]
        self._place = len(self._stands) - 1

    def back(self) -> None:
        self._go(-1)

    def forward(self) -> None:
        self._go(+1)

    def _go(self, by: int) -> None:
        self.note()
        place = self._place + by
        while 0 <= place < len(self._stands) and not self._is_there(self._stands[place]):
            place += by
        if not 0 <= place < len(self._stands):
            return
        self._place = place
        stand = self._stands[place]
        self._selection.set_runs(*stand.runs, cell=stand.cell)
        self._selection.set_view_range(stand.view)
        self._selection.select(stand.chosen[1])
        # Choosing may move the view: the view that was kept is the one to see.
        self._selection.set_view_range(stand.view)
        self._rest.stop()

    def _is_there(self, stand: _Stand) -> bool:
        return stand.runs == NOTHING or any(run_id is not None and self._has_run(run_id) for run_id in stand.runs)

    def forget(self) -> None:
        """Another session: there is no way back into the one before."""
        self._rest.stop()
        self._stands, self._place = [self._now()], 0
