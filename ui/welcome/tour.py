"""The tour: from nothing to a compared, exported pair of runs on the bundled sample, each step done by the person."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QSettings
from PySide6.QtWidgets import QWidget

from ui.state.run_controller import RunController
from ui.style.theme import ThemeHolder
from ui.welcome.coach_mark import CoachMark

_SEEN = "window/tour"


@dataclass(frozen=True)
class TourStep:
    """What to do and why, where, and how it is known that it was done. `actions` are the clicks or keys it takes."""

    title: str
    text: str
    target: Callable[[], QWidget]
    is_done: Callable[[], bool]
    actions: int = 1


class Tour(QObject):
    """Goes on when a step was really done; ended, it comes back only when it is asked for."""

    def __init__(
        self,
        steps: Sequence[TourStep],
        controller: RunController,
        holder: ThemeHolder,
        window: QWidget,
        settings: QSettings | None,
    ) -> None:
        super().__init__(window)
        self.steps = tuple(steps)
        self._controller = controller
        self._settings = settings
        self._at: int | None = None
        self.mark = CoachMark(holder, window)
        self.mark.dismissed.connect(self.end)

    @property
    def at(self) -> int | None:
        """The step it is at; None while nobody takes it."""
        return self._at

    @property
    def is_new(self) -> bool:
        """Whether it was never shown to this person."""
        return self._settings is not None and self._settings.value(_SEEN) is None

    def begin(self) -> None:
        """Shows the first step."""
        if self._settings is not None:
            self._settings.setValue(_SEEN, "shown")
        if self._at is None:
            self._controller.ticked.connect(self._look)
        self._at = 0
        self._show()

    def end(self) -> None:
        """Shows nothing more."""
        if self._at is not None:
            self._controller.ticked.disconnect(self._look)
        self._at = None
        self.mark.hide()

    def _show(self) -> None:
        if self._at is not None:
            step = self.steps[self._at]
            self.mark.point_at(step.target(), f"STEP {self._at + 1} OF {len(self.steps)}", step.title, step.text)

    def _look(self) -> None:
        """With every pull: whether the step was done, and where its target is now."""
        if self._at is None:
            return
        if not self.steps[self._at].is_done():
            self.mark.follow()
            return
        if self._at + 1 == len(self.steps):
            self.end()
            return
        self._at += 1
        self._show()
