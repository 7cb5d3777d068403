"""The ruler: from a moment to the pointer, along a drag, or over what is selected."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.state.selection import Selection, TimeRange
from ui.timeline.lane_stack import LaneStack
from ui.timeline.scene import TimelineScene


class Measuring(QObject):
    """Lays the ruler and takes it away."""

    def __init__(self, scene: TimelineScene, selection: Selection, stack: LaneStack, parent: QObject) -> None:
        super().__init__(parent)
        self._scene = scene
        self._selection = selection
        self._stack = stack

    def show(self, measured: TimeRange | None) -> None:
        """Lays the ruler over a range; None takes it away."""
        self._scene.ruler = measured
        self._stack.overlay.update()

    def start(self, t_ns: int | None) -> None:
        """From a moment on the ruler follows the pointer; None takes it away."""
        self._stack.measures_from = t_ns
        self.show(None if t_ns is None else TimeRange(t_ns, t_ns))

    def start_here(self) -> None:
        """From the pointer on, until the next click; where nothing is pointed at, what is selected."""
        at_px = self._scene.pointer_px
        if at_px is not None and self._stack.measures_from is None:
            self.start(self._stack.moment_under(at_px))
        elif at_px is not None:
            self._stack.measures_from = None
        else:
            self.show(self._scene.range_of(self._selection.chosen))

    def deselect(self) -> None:
        """Takes the ruler away, where there is one; else selects nothing."""
        if self._scene.ruler is not None or self._stack.measures_from is not None:
            self.start(None)
        else:
            self._selection.clear()
