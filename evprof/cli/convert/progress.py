"""What a person sees while recordings are converted."""

from __future__ import annotations

from collections.abc import Sequence

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import Progress
from evprof.core.units import count_text
from evprof.run.conversion.task import Step
from evprof.run.conversion.workers import Outcome


class ConvertProgress(Progress):
    """Watches one conversion, of which it counts events or frames, or those of a list."""

    kept = "what was finished"

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, title, "files")
        self._is_list = False
        self._failed = 0

    def begin(self, tasks: int, done_before: int) -> None:
        """Says how much there is to do."""
        self._is_list = tasks > 1
        done = f", {done_before:,} of them done" if done_before else ""
        self.say(f"{self._title}: {count_text(tasks, 'file')} to write{done}")
        self.start(tasks, done_before)

    def look(self, steps: Sequence[Step]) -> None:
        """Draws a few times a second."""
        if self._is_list:
            if self._bar is not None:
                self.draw(self._failures())
        elif steps and steps[0].done:
            step = steps[0]
            self.turn_to(self._title, step.unit, step.total)
            self._done = step.done
            self.draw()

    def end(self, outcome: Outcome) -> None:
        """Counts it; what failed is told at once."""
        if outcome.error is not None:
            self._failed += 1
            self.say(f"failed: {outcome.error}", is_warning=True)
        if self._is_list:
            self.advance(self._failures())

    def _failures(self) -> str:
        return f"{self._failed:,} failed" if self._failed else ""
