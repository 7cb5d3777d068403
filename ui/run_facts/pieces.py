"""Work that can be put down between two pieces: a generator that yields there, and returns what came of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

_Result = TypeVar("_Result")

Pieces: TypeAlias = "Generator[None, None, _Result]"


def finished(pieces: Pieces[_Result]) -> _Result:
    """Does all of it at once."""
    while True:
        try:
            next(pieces)
        except StopIteration as ended:
            found: _Result = ended.value
            return found
