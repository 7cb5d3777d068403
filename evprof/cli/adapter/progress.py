"""What a person sees while examples are collected or an adapter is trained: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from typing import Any, Self

from evprof.cli.suite.progress import time_text
from evprof.cli.terminal.console import Console
from evprof.cli.terminal.progress import REFRESH_S, Bar, PlainLines, TerminalBar

LINE_S = 5.0


class WorkProgress:
    """Counts one kind of thing up to a total, with rate and time left. A context manager, so that the bar goes away."""

    def __init__(self, console: Console, title: str, unit: str) -> None:
        self._is_terminal = console.is_terminal
        self._bar: Bar = TerminalBar() if console.is_terminal else PlainLines(console)
        self._title, self._unit = title, unit
        self._total = self._before = self._done = 0
        self._began = self._shown_at = time.monotonic()
        self._is_stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def start(self, total: int, before: int = 0) -> None:
        """So many there are to be, of which some are there."""
        self._total, self._before, self._done = total, before, 0
        self._began = self._shown_at = time.monotonic()

    def turn_to(self, title: str, unit: str, total: int) -> None:
        """Something else is counted from now on."""
        self._title, self._unit = title, unit
        self.start(total)

    def reach(self, done: int, note: str = "") -> None:
        """So many are done, those there before not counted; `note` stands behind the count."""
        self._done = done
        now = time.monotonic()
        at = self._before + done
        is_last = at >= self._total
        if self._is_terminal:
            if now - self._shown_at >= REFRESH_S or is_last:
                self._shown_at = now
                self._bar.show(f"{self._title}{f' · {note}' if note else ''}", at, self._total, self._unit)
            return
        if now - self._shown_at < LINE_S and not is_last:
            return
        self._shown_at = now
        speed = done / max(now - self._began, 1e-6)
        left = time_text((self._total - at) / speed) if speed else "unknown"
        parts = [f"{at:,} of {self._total:,} {self._unit}", f"{speed:.1f}/s", f"{left} left", *([note] if note else [])]
        self._bar.line(f"{self._title}: {' · '.join(parts)}")

    def advance(self, note: str = "") -> None:
        """One more is done."""
        self.reach(self._done + 1, note)

    def say(self, sentence: str) -> None:
        """A line that stays."""
        self._bar.line(sentence)

    def stopping(self) -> None:
        """Says, once, that a stop was heard."""
        if not self._is_stopping:
            self._is_stopping = True
            self._bar.line("stopping; what is done is kept (Ctrl-C again ends the program at once)")


class CollectProgress(WorkProgress):
    """Hears of collected examples."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "collecting", "examples")

    def begin(self, total: int, done_before: int) -> None:
        """So many are to be made, of which some are there."""
        there = f"; goes on, {done_before:,} there before" if done_before else ""
        self.say(f"collecting: {total:,} example{'s' * (total != 1)}{there}")
        self.start(total, done_before)

    def end(self, name: str, error: str | None = None) -> None:
        """One was made, or could not be."""
        if error is not None:
            self.say(f"failed: {name}: {error}")
        self.advance()


class TrainProgress(WorkProgress):
    """Hears of a training's steps and judgements."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "training", "steps")

    def begin(self, kind: str, curves: Any, parameters: int) -> None:
        """Training begins."""
        sizes = f"{parameters:,} parameters" if parameters else "counted, nothing to train"
        self.say(f"training {kind}: {curves.examples:,} examples, {curves.validation_examples:,} held back, {sizes}")
        self._began = time.monotonic()

    def step(self, step: int, steps: int, loss: float) -> None:
        """Some steps are done."""
        self._total = steps
        self.reach(step, f"loss {loss:.3f}")

    def judged(self, curves: Any, *, is_best: bool) -> None:
        """The held-back examples were looked at."""
        match, loss = curves.validation_match[-1], curves.validation_loss[-1]
        best = ", the best so far" if is_best and len(curves.validation_steps) > 1 else ""
        self.say(f"step {curves.validation_steps[-1]:,}: held back: {match:.1%} of tokens right, loss {loss:.3f}{best}")
