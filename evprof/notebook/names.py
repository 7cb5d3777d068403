"""What is asked for by name, and what is said of a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, TypeVar

from evprof.core.errors import UserError
from evprof.core.suggestions import guess_among

Value = TypeVar("Value")


class UnknownNameError(UserError, KeyError):
    """A name that is not there. It is a KeyError, too, as scripts expect of what they look up in brackets."""

    def __str__(self) -> str:
        return self.sentence


def refuse(name: object, kind: str, known: Iterable[object]) -> NoReturn:
    """Raises UnknownNameError: `'tokn' is no table of scene.evprof; did you mean tokens?`"""
    raise UnknownNameError(f"{name!r} is no {kind}{guess_among(name, known)}")


class Named(dict[str, Value]):
    """Things by name. Raises UnknownNameError, which tells the nearest name, for one that is not there."""

    def __init__(self, kind: str, found: dict[str, Value]) -> None:
        super().__init__(found)
        self._kind = kind

    def __missing__(self, name: str) -> NoReturn:
        refuse(name, self._kind, self)
