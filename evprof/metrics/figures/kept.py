"""Figures that are read off a run's rows once, when it has ended, and kept with it in the session file.

A function is marked with `kept`; for the arguments it names, a run that brings its figures (`RunLog.kept`) is not
asked for its rows. What is kept follows from the marks: see `evprof.metrics.run_summary`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from evprof.core.rows.kinds import REAL
from evprof.core.run_log import RunLog

_Read = TypeVar("_Read", bound=Callable[..., Any])


@dataclass(frozen=True)
class KeptReading:
    """One kept value: `read` off the rows of the run with `arguments`, or by `look` as it was kept; `told` makes of it
    what a column of its `kind` holds."""

    name: str
    read: Callable[..., Any]
    look: Callable[..., Any]
    arguments: tuple[Any, ...]
    kind: str
    told: Callable[[Any], Any]

    def of(self, run: RunLog) -> Any:
        """The value of a run; None where there is none."""
        found = self.read(run, *self.arguments)
        return None if found is None else self.told(found)


KEPT: dict[str, KeptReading] = {}
"""By name, of every module that was imported."""


def kept(
    *variants: tuple[Any, ...],
    kind: str = REAL,
    key: Callable[..., str | None] = lambda _: "",
    told: Callable[[Any], Any] = lambda value: value,
    taken: Callable[[Any], Any] = lambda value: value,
) -> Callable[[_Read], _Read]:
    """Marks a function of a run. `variants` are the arguments that values are kept for, one of none by default; `key`
    names a call by its arguments (None: such a call is never kept). `told` makes of a value what a column of its `kind`
    holds, `taken` the value again.
    """

    def mark(read: _Read) -> _Read:
        prefix = read.__name__
        names = dict[str, str]()
        listed = variants or ((),)
        # Most calls name their arguments as they are kept: nothing has to be worked out for those.
        exact = {arguments: f"{prefix} {key(None, *arguments)}".rstrip() for arguments in listed}

        def named(run: RunLog, *args: Any, **words: Any) -> str | None:
            found = key(run, *args, **words)
            if found is None or found in names:
                return names.get(found) if found is not None else None
            return names.setdefault(found, f"{prefix} {found}".rstrip())

        @wraps(read)
        def look(run: RunLog, *args: Any, **words: Any) -> Any:
            known = run.kept
            if known is not None:
                name = None if words else exact.get(args)
                if name is None:
                    name = named(run, *args, **words)
                found = known if name is None else known.get(name, known)
                if found is not known:
                    return None if found is None else taken(found)
            return read(run, *args, **words)

        for arguments, name in exact.items():
            KEPT[name] = KeptReading(name, read, look, arguments, kind, told)
        return look  # type: ignore[return-value]  # the same signature

    return mark
