"""Trainings told in a session: a list of curves under a fact of its own, one entry for each training."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evprof.core.errors import UserError
from evprof.session.store import Commit, SessionFile

TRAINING = "training"
"""The fact that holds them."""

MOST_TRAININGS = 200


def trainings(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trainings of a session's facts, in order; what is no such list is none."""
    found = facts.get(TRAINING)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


class TrainingEntry:
    """One training in a session that is held open for it; `put` may be called as often as its curves grow.

    A context manager. A session that is not there is made; one with runs keeps them.
    """

    def __init__(self, path: Path) -> None:
        """Raises UserError for a file that is no session, for one that is being recorded, and for a full one."""
        self.path = path
        self._file = SessionFile(path)
        self._before = trainings({TRAINING: self._file.fact(TRAINING)})
        if len(self._before) >= MOST_TRAININGS:
            self._file.close()
            raise UserError(f"{path} tells of {MOST_TRAININGS} trainings already; name another session.")

    def put(self, entry: Mapping[str, Any]) -> None:
        """This training as it is now, behind those that were there. Raises UserError when it cannot be written."""
        try:
            self._file.commit({}, Commit(facts={TRAINING: [*self._before, dict(entry)]}))
        except sqlite3.Error as error:
            raise UserError(f"{self.path} cannot be written: {error}; is there room on the disk?") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        except sqlite3.Error as problem:
            if kind is None:
                raise UserError(f"{self.path} cannot be closed: {problem}; is there room on the disk?") from problem
