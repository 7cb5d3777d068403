"""Spares the window's start the writing of methods that nobody has called yet.

`@dataclass` writes up to six methods as text and compiles each while a module is imported, a sixth of the start before
the first picture. Of the classes made meanwhile only `__init__` is compiled at once, the others when first called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

_CREATE = "_create_fn"
"""Compiles one method in the dataclasses of Python 3.11 and 3.12; that of 3.13 compiles a class's methods at once."""

Create = Callable[..., Callable[..., Any]]


def put_off_methods() -> None:
    """For the data classes of modules that are imported from now on."""
    create: Create | None = vars(dataclasses).get(_CREATE)
    if create is not None and not isinstance(create, _Late):
        vars(dataclasses)[_CREATE] = _Late(create)


class _Late:
    """Stands in for `_create_fn`."""

    def __init__(self, create: Create) -> None:
        self._create = create

    def __call__(self, name: str, *given: Any, **named: Any) -> Callable[..., Any]:
        if name == "__init__":
            return self._create(name, *given, **named)
        compiled = cache(lambda: self._create(name, *given, **named))

        def method(*arguments: Any) -> Any:
            made = compiled()
            made.__qualname__ = method.__qualname__
            for owner in type(arguments[0]).__mro__:
                if vars(owner).get(name) is method:
                    setattr(owner, name, made)
            return made(*arguments)

        method.__name__ = name
        return method
