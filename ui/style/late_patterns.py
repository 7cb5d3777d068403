"""Spares the window's start three patterns of PySide's, which match brackets within brackets within brackets.

They read type hints for programs that write documentation, or for the sentence about a call with wrong arguments, and
compiling them at every start takes a twentieth of it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

LONG = 2_000
"""Letters of a pattern from which on compiling it takes milliseconds."""


class LatePattern:
    """Stands for a pattern that is compiled when one of its methods is first called."""

    def __init__(self, make: Callable[[], re.Pattern[Any]]) -> None:
        self._make = make

    @cached_property
    def _pattern(self) -> re.Pattern[Any]:
        return self._make()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return getattr(self._pattern, name)(*given, **named)

        return call


@contextlib.contextmanager
def putting_off_patterns() -> Iterator[None]:
    """Around the first import of PySide: long patterns that are to be compiled meanwhile are compiled on their use."""
    compile_now = re.compile

    def compile_late(pattern: Any, flags: int = 0) -> Any:
        if isinstance(pattern, str) and len(pattern) >= LONG:
            return LatePattern(lambda: compile_now(pattern, flags))
        return compile_now(pattern, flags)

    vars(re)["compile"] = compile_late
    try:
        yield
    finally:
        vars(re)["compile"] = compile_now
