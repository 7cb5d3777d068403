"""What does not work, and the way out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """Something that will not work here, and what to do about it."""

    problem: str
    fix: str
