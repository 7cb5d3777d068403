"""The spans of one run as columns, put together from their records: a run may hold a million, and few are looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evprof.core.recording import IntColumn, Texts, WordCodes
from evprof.core.records import BEGIN, COVERS, END, STAGES, TensorRecord
from evprof.core.rows.blocks import Ints, distinct

RUNNING, ENDED, SETTLED = 0, 1, 2
"""States of a span: begun; ended on the host's clock; device times known."""

_NONE = -1


class IntTable:
    """Equally long int64 columns that grow; views handed out stay valid."""

    def __init__(self, columns: int) -> None:
        self._columns = [IntColumn() for _ in range(columns)]
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, columns: tuple[Ints, ...]) -> None:
        for held, values in zip(self._columns, columns, strict=True):
            held.put(self._length, values)
        self._length += len(columns[0])

    def column(self, index: int) -> Ints:
        return self._columns[index].held(self._length)


class SpanRows(NamedTuple):
    span_ids: Ints
    parent_ids: Ints
    phases: Ints
    roles: Texts
    names: Texts
    starts: Ints
    ends: Ints


class SpanColumns:
    """Spans in order of their first record; `place` counts from 0 and stays."""

    _ID, _PARENT, _ROLE, _NAME, _START, _END, _HOST_START, _HOST_END, _STATE, _HAS_HOST_END = range(10)

    def __init__(self) -> None:
        self._table = IntTable(10)
        self._role_codes, self._name_codes = WordCodes(), WordCodes()
        self._stage_of_name: list[bool] = []
        self._is_ascending = True

    def __len__(self) -> int:
        return len(self._table)

    @property
    def ids(self) -> Ints:
        return self._table.column(self._ID)

    @property
    def parents(self) -> Ints:
        """The id of the span that each is a part of, -1 for none."""
        return self._table.column(self._PARENT)

    @property
    def roles(self) -> Ints:
        """Codes into `role_words`."""
        return self._table.column(self._ROLE)

    @property
    def names(self) -> Ints:
        """Codes into `name_words`."""
        return self._table.column(self._NAME)

    @property
    def starts(self) -> Ints:
        """Moments in ns on the clock: the device's where settled."""
        return self._table.column(self._START)

    @property
    def ends(self) -> Ints:
        """The same of ends; means nothing where the state is RUNNING."""
        return self._table.column(self._END)

    @property
    def states(self) -> Ints:
        """RUNNING, ENDED or SETTLED."""
        return self._table.column(self._STATE)

    @property
    def name_words(self) -> list[str]:
        return self._name_codes.words

    def name_code(self, name: str) -> int:
        """The code of a name, -1 where no span has it."""
        return self._name_codes.get(name, _NONE)

    @property
    def role_words(self) -> list[str]:
        return self._role_codes.words

    def role_code(self, role: str) -> int:
        return self._role_codes.get(role, _NONE)

    def host_times(self, place: int) -> tuple[int, int | None]:
        """When a span began and ended by the host's clock; None where no end was told."""
        has_end = self._table.column(self._HAS_HOST_END)[place]
        return int(self._table.column(self._HOST_START)[place]), (
            int(self._table.column(self._HOST_END)[place]) if has_end else None
        )

    def are_stages(self, places: Ints | slice) -> npt.NDArray[np.bool_]:
        """Which of some spans are stages: parts of no other span that have a stage's name."""
        for word in self.name_words[len(self._stage_of_name) :]:
            self._stage_of_name.append(is_stage_name(word))
        has_name = np.array(self._stage_of_name, dtype=bool)
        names = self.names[places]
        return (self.parents[places] < 0) & has_name[names] if len(names) else np.zeros(0, dtype=bool)

    def places(self, span_ids: Ints) -> Ints:
        known = self.ids
        if not len(known):
            return np.full(len(span_ids), _NONE, dtype=np.int64)
        order = None if self._is_ascending else np.argsort(known)
        found = np.minimum(np.searchsorted(known, span_ids, sorter=order), len(known) - 1)
        found = found if order is None else order[found]
        return np.where(known[found] == span_ids, found, _NONE)

    def take(self, rows: SpanRows) -> Ints:
        """Takes records in; returns the place of each one's span. The first record of a span begins it."""
        values, firsts, which = distinct(rows.span_ids)
        places = self.places(values)
        order = np.argsort(firsts)
        new = order[places[order] < 0]
        before = len(self._table)
        places[new] = before + np.arange(len(new))
        self._add(values[new])
        self._begin(places[new], rows, firsts[new])
        place_of = places[which]
        ended = np.flatnonzero(rows.phases == END)
        self._end(place_of[ended], rows.starts[ended], rows.ends[ended])
        settled = np.flatnonzero((rows.phases != END) & (rows.phases != BEGIN))
        self._set(place_of[settled], rows.starts[settled], rows.ends[settled], SETTLED)
        return place_of

    def _add(self, span_ids: Ints) -> None:
        if not len(span_ids):
            return
        last = int(self.ids[-1]) if len(self) else _NONE
        rises = bool((np.diff(span_ids) > 0).all())
        self._is_ascending = self._is_ascending and rises and (not len(self) or last < int(span_ids[0]))
        nothing = np.zeros(len(span_ids), dtype=np.int64)
        self._table.append((span_ids, *([nothing] * 9)))

    def _begin(self, places: Ints, rows: SpanRows, sources: Ints) -> None:
        column = self._table.column
        column(self._PARENT)[places] = rows.parent_ids[sources]
        column(self._ROLE)[places] = _own_codes(self._role_codes, rows.roles, sources)
        column(self._NAME)[places] = _own_codes(self._name_codes, rows.names, sources)
        column(self._START)[places] = rows.starts[sources]
        column(self._HOST_START)[places] = np.where(rows.phases[sources] == BEGIN, rows.starts[sources], 0)
        for index, value in ((self._END, _NONE), (self._STATE, RUNNING), (self._HAS_HOST_END, 0)):
            column(index)[places] = value

    def _end(self, places: Ints, starts: Ints, ends: Ints) -> None:
        column = self._table.column
        column(self._HOST_START)[places] = starts
        column(self._HOST_END)[places] = ends
        column(self._HAS_HOST_END)[places] = 1
        # Device times that came first stay.
        is_open = column(self._STATE)[places] != SETTLED
        self._set(places[is_open], starts[is_open], ends[is_open], ENDED)

    def _set(self, places: Ints, starts: Ints, ends: Ints, state: int) -> None:
        column = self._table.column
        column(self._START)[places] = starts
        column(self._END)[places] = ends
        column(self._STATE)[places] = state


def is_stage_name(name: str) -> bool:
    """Whether a span of that name is one or several of the five stages, as far as the name says."""
    return name in STAGES or all(part in STAGES for part in name.split(COVERS))


def _own_codes(known: WordCodes, texts: Texts, sources: Ints) -> Ints:
    """The run's own codes of the texts of some rows: in order of the rows, however many are taken in at once."""
    if not len(sources):
        return sources
    found, firsts, _ = distinct(texts.codes[np.sort(sources)])
    own = np.zeros(int(found[-1]) + 1, dtype=np.int64)
    for code in found[np.argsort(firsts)].tolist():
        own[code] = known[texts.words[code]]
    return own[texts.codes[sources]]


@dataclass
class Span:
    """A measured interval as known so far. Provisional until settled: then start and end are device times."""

    span_id: int
    parent_id: int
    role: str
    name: str
    start_ns: int
    end_ns: int | None = None
    is_settled: bool = False
    host_start_ns: int = 0
    host_end_ns: int | None = None
    tensors: list[TensorRecord] = field(default_factory=list)

    @property
    def duration_ns(self) -> int | None:
        """Length in ns, None while it runs."""
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def covers(self) -> tuple[str, ...]:
        """The stages this one interval holds: itself, or several that imported data measured in one piece."""
        return tuple(self.name.split(COVERS))

    @property
    def stage_name(self) -> str:
        """The stage it is told under: the last one that it covers."""
        return self.covers[-1]

    @property
    def is_stage(self) -> bool:
        """Whether this is one or several of the five stages rather than a part of one."""
        return self.parent_id < 0 and is_stage_name(self.name)
