"""Figures that are quotients, such as tokens per second: over several runs, totals over totals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evprof.core.run_log import RunLog


@dataclass(frozen=True)
class Rate:
    """A quotient of two figures of a run; None where either is not measured. Over several runs it is the sum of `total`
    by the sum of `over`."""

    total: Callable[[RunLog], float | None]
    over: Callable[[RunLog], float | None]

    def __call__(self, run: RunLog) -> float | None:
        total = self.total(run)
        over = None if total is None else self.over(run)
        return total / over if total is not None and over else None
