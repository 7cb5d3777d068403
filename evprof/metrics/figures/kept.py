"""Figures that are stored with a run when it has ended, so that lists and comparisons need not read its rows.

A function of a run is marked with `kept`. A stored run that brings the value (`RunLog.kept`) is not read for it.
Values are JSON: numbers, texts, None, lists and dictionaries of these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from evprof.core.run_log import RunLog

_Read = TypeVar("_Read", bound=Callable[..., Any])

VERSION = 2
"""Counted up when a figure is added or computed differently: values of other versions are computed from the rows."""

VERSION_KEY = "version"

KEPT: dict[str, Callable[[RunLog], Any]] = {}
"""Name of each stored figure -> how it is computed from the rows; of every module that was imported."""


def kept(*variants: tuple[str, ...]) -> Callable[[_Read], _Read]:
    """Marks a function of a run. `variants` are the arguments that values are stored for, none by default; a value is
    named after the function and its arguments: `stage_ms decode target`."""

    def mark(read: _Read) -> _Read:
        names = {arguments: " ".join((read.__name__.lstrip("_"), *arguments)) for arguments in variants or ((),)}

        @wraps(read)
        def look(run: RunLog, *arguments: Any) -> Any:
            stored, name = run.kept, names.get(arguments)
            if stored is None or name is None:
                return read(run, *arguments)
            if name in stored:
                return stored[name]
            # Values that are None are left out.
            return None if stored.get(VERSION_KEY) == VERSION else read(run, *arguments)

        for arguments, name in names.items():
            KEPT[name] = partial(_computed, read, arguments)
        return look  # type: ignore[return-value]  # the same signature

    return mark


def _computed(read: Callable[..., Any], arguments: tuple[str, ...], run: RunLog) -> Any:
    return read(run, *arguments)
