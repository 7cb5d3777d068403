"""How far long work is: what a command draws as a bar, and sends as a line to a program that follows it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from evprof.core.plain import Plain

MARK = "\x1e"
"""Begins a line of progress. No other line begins so: what a command writes has no control characters."""

_LONGEST = 4096


@dataclass(frozen=True)
class WorkProgress(Plain):
    """What is done, how much of how much (`total` None: unknown), and what is known: "3 of 8 rows · 40 s left"."""

    title: str
    done: float
    total: float | None
    state: str

    @property
    def share(self) -> float | None:
        """0…1; None where nobody knows how much there is to do."""
        return min(self.done / self.total, 1.0) if self.total else None

    def line(self) -> str:
        """Itself as a line of text, without the line's end."""
        return MARK + json.dumps(self.to_json(), allow_nan=False)

    @classmethod
    def of_line(cls, line: str) -> WorkProgress | None:
        """The progress that a line tells; None of any other line."""
        if not line.startswith(MARK) or len(line) > _LONGEST:
            return None
        try:
            return cls.if_fitting(json.loads(line[len(MARK) :]))
        except (ValueError, RecursionError):
            return None
