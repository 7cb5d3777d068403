"""Runs by number, of which most may lie in a file until somebody asks for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

_Run = TypeVar("_Run")


class ListedRuns(Mapping[int, _Run]):
    """Those of `stored` and of `own` runs that are not `hidden`, in order of their numbers or, of own ones, of coming.

    All three may change while this is in use.
    """

    def __init__(
        self, stored: Mapping[int, _Run], own: Mapping[int, _Run], hidden: Collection[int] = frozenset()
    ) -> None:
        self.stored = stored
        self.own = own
        self.hidden = hidden

    def __len__(self) -> int:
        hidden = sum(run_id in self.stored or run_id in self.own for run_id in self.hidden)
        return len(self.stored) + len(self.own) - hidden

    def __iter__(self) -> Iterator[int]:
        hidden, stored, own = self.hidden, list(self.stored), list(self.own)
        ids = [*stored, *own] if not stored or not own or min(own) > stored[-1] else sorted([*stored, *own])
        return (run_id for run_id in ids if run_id not in hidden) if hidden else iter(ids)

    def __contains__(self, run_id: object) -> bool:
        return (run_id in self.own or run_id in self.stored) and run_id not in self.hidden

    def __getitem__(self, run_id: int) -> _Run:
        if run_id in self.hidden:
            raise KeyError(run_id)
        found = self.own.get(run_id)
        return self.stored[run_id] if found is None else found
