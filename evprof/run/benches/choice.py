"""What all benchmarks ask of their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from evprof.core.errors import UsageError
from evprof.core.texts import guess_among

T = TypeVar("T")


def check_repeat(count: int) -> None:
    """Raises UserError (exit code 2) for a number of repeats that means nothing."""
    if count < 1:
        raise UsageError(f"--repeat must be at least 1, not {count}.")


def chosen(
    known: Sequence[T], only: Sequence[str], kind: str, name: Callable[[T], str], fits: Callable[[T, str], bool]
) -> list[T]:
    """Those of `known` that a word of `only` fits; all without words.

    Raises UserError (exit code 2), saying of what `kind` there is none, for a word that fits nothing.
    """
    for word in only:
        if not any(fits(entry, word) for entry in known):
            raise UsageError(f"--only: there is no {kind} '{word}'{guess_among(word, map(name, known))}")
    return [entry for entry in known if not only or any(fits(entry, word) for word in only)]
