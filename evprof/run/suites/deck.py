"""Hands the rows of a plan to places that work at once, so that what is compared is measured on one machine.

Rows of one sample that follow each other are a *turn*: all configurations on it, or a block's. A turn stays at one
place. The next turn is the first in the plan's order whose sample no other machine has; one place alone so gets the
plan as it is. Interleaved turns, which hold both sides of every pair, may go to whoever is idle; turns of blocks wait
for their machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import groupby

from evprof.run.suites.plan import BLOCKS, SuiteRow


class RowDeck:
    """Rows that nobody has yet. `order` is the plan's."""

    def __init__(self, rows: Iterable[SuiteRow], order: str) -> None:
        self._waits = order == BLOCKS
        self._turns = deque(deque(turn) for _, turn in groupby(rows, _turn))
        self._begun: dict[int, deque[SuiteRow]] = {}
        self._owners: dict[str, str] = {}

    def __bool__(self) -> bool:
        """Whether rows are left."""
        return bool(self._turns) or any(self._begun.values())

    def next_for(self, place: int, machine: str) -> SuiteRow | None:
        """The row that a place takes next; None when there is none for its machine."""
        turn = self._begun.get(place)
        if not turn:
            turn = self._turn_for(machine)
            if turn is None:
                return None
            self._begun[place] = turn
        row = turn.popleft()
        self._owners.setdefault(row.sample.name, machine)
        return row

    def give_back(self, place: int, row: SuiteRow, *, machine_is_gone: str = "") -> None:
        """A row that was lost comes first again, with the rest of its turn, for any place; what a machine had that is
        gone is free for others."""
        self._turns.appendleft(deque([row, *self._begun.pop(place, ())]))
        self._owners.pop(row.sample.name, None)
        if machine_is_gone:
            self._owners = {name: owner for name, owner in self._owners.items() if owner != machine_is_gone}

    def _turn_for(self, machine: str) -> deque[SuiteRow] | None:
        found = next(
            (
                number
                for number, turn in enumerate(self._turns)
                if self._owners.get(turn[0].sample.name, machine) == machine
            ),
            None if self._waits or not self._turns else 0,
        )
        if found is None:
            return None
        turn = self._turns[found]
        del self._turns[found]
        return turn


def _turn(row: SuiteRow) -> tuple[int, str, int]:
    return row.session, row.sample.name, row.repeat
