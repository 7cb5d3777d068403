"""Which lines a list of runs has: cells, requests and the runs below them; of runs that lie in a file by columns.

A hundred thousand runs are gathered and filtered without one being made; those of a line are made when it is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from evprof.core.rows.listed_runs import ListedRuns
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from ui.run_facts.expected import verdicts_of

if TYPE_CHECKING:
    from evprof.session.summaries.runs import SessionRuns

CELL, REPEATS = "cell", "repeats"

BETWEEN = "\x1f"
"""Between the parts of what is looked through of a run; no word that somebody types holds it."""

FoldKey = tuple[str, str]
"""The key of a line that others lie below: (CELL, its name) or (REPEATS, the number of the request)."""

Places: TypeAlias = "npt.NDArray[np.int64]"

_ALIKE = ("mode", "role", "settings", "models", "speculation", "setup", "imported", "warmup", "profiled")
"""What the words of a run's line depend on, besides those that are told by themselves."""

_TOLD = ("name", "note", "sample", "cell", "status")
"""What is told of a run by itself, with its number."""


class Members(Sequence[RunLog]):
    """The runs of one line by number, made when they are asked for."""

    def __init__(self, runs: Mapping[int, RunLog], run_ids: Sequence[int]) -> None:
        self.runs = runs
        self.run_ids = run_ids

    def __len__(self) -> int:
        return len(self.run_ids)

    @overload
    def __getitem__(self, place: int) -> RunLog: ...
    @overload
    def __getitem__(self, place: slice) -> list[RunLog]: ...
    def __getitem__(self, place: int | slice) -> RunLog | list[RunLog]:
        if isinstance(place, slice):
            return [self.runs[run_id] for run_id in self.run_ids[place]]
        return self.runs[self.run_ids[place]]


@dataclass(frozen=True)
class Parted:
    """Runs as those that lie in a file and all others."""

    stored: SessionRuns | None
    own: Mapping[int, RunLog]
    hidden: frozenset[int]


def parted(runs: Mapping[int, RunLog]) -> Parted:
    """The parts of a session's runs."""
    own: dict[int, RunLog] = {}
    hidden: set[int] = set()
    while isinstance(runs, ListedRuns):
        own = {**runs.own, **own}
        hidden |= set(runs.hidden)
        runs = runs.stored
    if runs:
        # Without runs there is no need of what reads them.
        from evprof.session.summaries.runs import SessionRuns

        if isinstance(runs, SessionRuns):
            return Parted(runs, {key: run for key, run in own.items() if key not in hidden}, frozenset(hidden))
    return Parted(None, {**runs, **{key: run for key, run in own.items() if key not in hidden}}, frozenset())


def key_of(run: RunLog) -> FoldKey:
    """The line that a run may lie below."""
    return (CELL, run.info.cell) if run.info.cell else (REPEATS, str(run.info.group_id))


class RunGroups:
    """Runs by the line they may lie below, newest first. What lies in a file is gathered once."""

    def __init__(self, text_of: Callable[[RunLog], str]) -> None:
        self._text_of = text_of
        self._seen: tuple[SessionRuns, frozenset[int]] | None = None
        self._stored: dict[FoldKey, list[int]] = {}
        self._alike: tuple[Places, list[str]] | None = None

    def of(self, runs: Mapping[int, RunLog]) -> dict[FoldKey, Members]:
        """The groups in order of their first run."""
        parts = parted(runs)
        found: dict[FoldKey, list[int]] = {}
        if parts.stored is not None:
            self._gather(parts.stored, parts.hidden)
            found = dict(self._stored)
        for run_id, run in parts.own.items():
            key = key_of(run)
            found[key] = [*found.get(key, ()), run_id]
        return {key: Members(runs, ids) for key, ids in found.items()}

    def _gather(self, stored: SessionRuns, hidden: frozenset[int]) -> None:
        if self._seen is not None and self._seen[0] is stored and self._seen[1] == hidden:
            return
        if self._seen is None or self._seen[0] is not stored:
            self._alike = None
        self._seen, self._stored = (stored, hidden), {}
        columns = stored.columns
        if not len(columns):
            return
        cells, groups = columns.texts("cell"), columns.column("group_id")
        is_cell = np.array([bool(word) for word in cells.words])[cells.codes]
        there = np.flatnonzero(~np.isin(columns.run_ids, list(hidden))) if hidden else np.arange(len(columns))
        # Cells below zero, so that no request has their number.
        keys = np.where(is_cell, -1 - cells.codes, groups)[there]
        names, first, which = np.unique(keys, return_index=True, return_inverse=True)
        in_order = np.argsort(which, kind="stable")
        parts = np.split(columns.run_ids[there][in_order], np.cumsum(np.bincount(which))[:-1])
        for place in np.argsort(first, kind="stable").tolist():
            name = int(names[place])
            key = (CELL, cells.words[-1 - name]) if name < 0 else (REPEATS, str(name))
            self._stored[key] = parts[place].tolist()

    def matching(self, runs: Mapping[int, RunLog], words: Sequence[str]) -> frozenset[int]:
        """The numbers of runs that tell every word: in number, mode, name, note, settings, sample, model or outcome."""
        parts = parted(runs)
        found = {run_id for run_id, run in parts.own.items() if self.holds(run, words)}
        if parts.stored is not None and len(parts.stored):
            mask = self._mask(parts.stored, words)
            found |= set(parts.stored.columns.run_ids[mask].tolist())
            # What was said of runs since they were summarized is not in the columns.
            for run_id, run in list(parts.stored.made.items()):
                if run.version:
                    (found.add if self.holds(run, words) else found.discard)(run_id)
        return frozenset(found - parts.hidden)

    def holds(self, run: RunLog, words: Sequence[str]) -> bool:
        """Whether one run tells every word."""
        text = self._text_of(run) if words else ""
        return all(word in text for word in words)

    def _mask(self, stored: SessionRuns, words: Sequence[str]) -> npt.NDArray[np.bool_]:
        columns = stored.columns
        mask = np.ones(len(columns), dtype=np.bool_)
        kinds, texts = self._kinds(stored)
        for word in words:
            hits = np.array([word in text for text in texts])[kinds]
            for name in _TOLD:
                told = columns.texts(name)
                is_told = np.array([word in _said(name, text) for text in told.words])
                hits |= is_told[told.codes]
            hits |= self._judged(stored, word)
            if word.isdecimal():
                hits |= np.array([word in str(run_id) for run_id in columns.run_ids.tolist()])
            mask &= hits
        return mask

    @staticmethod
    def _judged(stored: SessionRuns, word: str) -> npt.NDArray[np.bool_]:
        """Of which runs the list says so of their answers."""
        from evprof.metrics.facts import verdict_words
        from evprof.metrics.figures.scores import KEPT_F1, KEPT_RIGHT

        columns, none = stored.columns, np.full(len(stored.columns), np.nan)
        right, shared = (columns.column(kept) if kept in columns else none for kept in (KEPT_RIGHT, KEPT_F1))
        # Whole numbers, for NaN is no number's equal: -1 where there is no score.
        verdict = np.where(np.isnan(right), -1, np.nan_to_num(right)).astype(np.int64)
        percent = np.where(np.isnan(shared) | ~columns.told(KEPT_RIGHT), -1, np.round(100 * np.nan_to_num(shared)))
        _, codes = np.unique(verdict * 1000 + percent.astype(np.int64), return_inverse=True)
        _, first = np.unique(codes, return_index=True)
        pairs = zip(verdict[first].tolist(), percent[first].tolist(), strict=True)
        said = [
            verdict_words(float(told) if told >= 0 else None, near / 100 if near >= 0 else None) for told, near in pairs
        ]
        statuses = columns.texts("status")
        is_over = np.array([text == FINISHED for text in statuses.words])[statuses.codes]
        hits: npt.NDArray[np.bool_] = np.array([word in text.casefold() for text in said])[codes.ravel()] & is_over
        return hits

    def _kinds(self, stored: SessionRuns) -> tuple[Places, list[str]]:
        """Which runs are told in the same words, and these: of one of each kind."""
        if self._alike is None:
            columns = stored.columns
            codes = np.zeros(len(columns), dtype=np.int64)
            for name in _ALIKE:
                column = columns.texts(name).codes if name not in ("warmup", "profiled") else columns.column(name)
                _, codes = np.unique(codes * (int(column.max()) + 1) + column, return_inverse=True)
            _, first = np.unique(codes, return_index=True)
            texts = [self._text_of(stored[int(columns.run_ids[place])]) for place in first.tolist()]
            self._alike = (
                codes,
                [_without_own(stored, int(place), text) for place, text in zip(first, texts, strict=True)],
            )
        return self._alike


def _said(name: str, text: str) -> str:
    """What of a stored word is looked through: of a sample its name."""
    if name == "sample":
        found = json.loads(text) if text else {}
        text = str(found.get("name") or "") if isinstance(found, dict) else ""
    return text.casefold()


def _without_own(stored: SessionRuns, place: int, text: str) -> str:
    """The words of one run that others of its kind share: without its number and what is told by itself."""
    info = stored[int(stored.columns.run_ids[place])].info
    own = [str(info.run_id), info.name, info.note, info.sample.name, info.cell, info.status]
    own.append(verdicts_of([stored[int(stored.columns.run_ids[place])]]))
    for part in own:
        text = text.replace(f"{BETWEEN}{part.casefold()}{BETWEEN}", 2 * BETWEEN, 1)
    return text


_Line = TypeVar("_Line")


@dataclass(frozen=True)
class Slot(Generic[_Line]):
    """A line that is made when it is asked for: its key, the numbers of its runs, and whether it lies below another."""

    key: object
    run_ids: Sequence[int]
    is_inner: bool
    make: Callable[[], _Line]


class SlotList(Sequence[_Line]):
    """Lines that are made when they are asked for."""

    def __init__(self, slots: Iterable[Slot[_Line]]) -> None:
        self.slots = list(slots)
        self.keys = [slot.key for slot in self.slots]
        self._places: dict[object, int] | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def __iter__(self) -> Iterator[_Line]:
        return (slot.make() for slot in self.slots)

    @overload
    def __getitem__(self, place: int) -> _Line: ...
    @overload
    def __getitem__(self, place: slice) -> list[_Line]: ...
    def __getitem__(self, place: int | slice) -> _Line | list[_Line]:
        if isinstance(place, slice):
            return [slot.make() for slot in self.slots[place]]
        return self.slots[place].make()

    def place(self, key: object) -> int | None:
        """Where the line of a key stands."""
        if self._places is None:
            self._places = {known: place for place, known in enumerate(self.keys)}
        return self._places.get(key)

    def of(self, key: object) -> _Line | None:
        """The line of a key."""
        place = self.place(key)
        return None if place is None else self[place]
