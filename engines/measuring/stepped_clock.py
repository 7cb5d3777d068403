"""A clock whose spans and steps also show elsewhere: in a profiler's trace, as a tool's ranges."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from engines.measuring.timing import StageClock


class SteppedClock(StageClock):
    """Wraps every span by its name, and every step as `step_name` calls it, in a context that `annotation` makes."""

    _steps = 0
    _step: AbstractContextManager[Any] | None = None

    def step_name(self, kind: str) -> str:
        """What the next step is called; `kind` is "token" or "round"."""
        return f"{kind} {self._steps}"

    def begin_step(self, kind: str = "token") -> None:
        """Opens the step's context."""
        if self.annotation is not None:
            self._step = self.annotation(self.step_name(kind))
            self._step.__enter__()
        self._steps += 1

    def end_step(self) -> None:
        """Closes it."""
        self.end_mark()
        super().end_step()

    def finish(self) -> int:
        """Closes what a stopped run left open, too."""
        self.end_mark()
        return super().finish()

    def end_mark(self) -> None:
        """Closes the open step's context, if there is one."""
        step, self._step = self._step, None
        if step is not None:
            step.__exit__(None, None, None)
