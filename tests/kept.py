"""The type of gui/conftest.py's `keep`."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Keep(Protocol):
    """Frees what a test makes when the test ends, and returns it."""

    def __call__(self, made: T) -> T: ...
