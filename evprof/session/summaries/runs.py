"""Runs of a session made of their summaries: their facts and rows are read when somebody asks for more."""

from __future__ import annotations

import copy
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from evprof.core.errors import UserError
from evprof.core.plain import UnfitError, hints_of, reader_of
from evprof.core.recording import RecordLog
from evprof.core.records import JudgementRecord, RoundRecord
from evprof.core.rows.kinds import JUDGED, NO_TEXT, ROUNDS, TEXT
from evprof.core.rows.row_block import blocks_by_run
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.run_settings import settings_from_json
from evprof.core.sample import Sample
from evprof.session.summaries.columns import StoredColumns
from evprof.session.summary_writing import CHUNKS, FACTS, HEAVY, NUMBERS, STATE, WORDS

_Said = TypeVar("_Said")

MOST_FACTS = 65_536
"""Of words that say facts, how many are kept as what they say."""

MOST_AHEAD = 256
"""Words that are read together."""

MOST_FETCHED = 256
"""Runs whose rows stay in memory; those of others are read again when they are asked for."""

MOST_INFOS = 64
"""Of runs asked for all that is known of them."""


class Store(Protocol):
    """The file behind stored runs. All raise UserError where it cannot be read any more."""

    @property
    def columns(self) -> StoredColumns:
        """The summaries."""

    def words(self, numbers: list[int]) -> dict[int, str]:
        """Words by their numbers."""

    def release(self) -> None:
        """Lets go of the file; the next question opens it again."""

    def whole_info(self, run_id: int) -> RunInfo:
        """All that is known of a run but its rows."""

    def rows(self, run_id: int, lies: Sequence[int | None]) -> tuple[RecordLog, list[str]]:
        """The rows of a run, which lie at these values of CHUNKS; and sentences about those that are not whole."""


class SessionRuns(Mapping[int, RunLog]):
    """The summarized runs of a session by number, in order; a run is made when it is first asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.columns = store.columns
        self._places = {run_id: place for place, run_id in enumerate(self.columns.run_ids.tolist())}
        self._made: dict[int, RunLog] = {}
        self._facts: dict[tuple[str, int], Any] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._infos: OrderedDict[int, RunInfo] = OrderedDict()
        self._fetched: OrderedDict[int, StoredRun] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._places

    def __getitem__(self, run_id: int) -> RunLog:
        run = self._made.get(run_id)
        if run is None:
            with self._lock:
                run = self._made.setdefault(run_id, StoredRun.made(self, self._places[run_id]))
        return run

    def place(self, run_id: int) -> int:
        """Where a run stands in the columns."""
        return self._places[run_id]

    def note_fetched(self, run: StoredRun) -> None:
        """Notes a run whose rows were read; lets go of those that were read longest ago."""
        with self._lock:
            self._fetched[run.run_id] = run
            while len(self._fetched) > MOST_FETCHED:
                self._fetched.popitem(last=False)[1].let_go()

    @property
    def made(self) -> Mapping[int, RunLog]:
        """Those that somebody asked for: of these more may have been said since."""
        return self._made

    def fact(self, name: str, place: int) -> Any:
        """What is kept as JSON under a name; one object for all runs of which the same is said. None without it."""
        number = self.columns.value(name, place)
        if number is None:
            return None
        found = self._facts.get((name, number), self)
        if found is self:
            found = self._look_ahead(self._facts, name, place, number, lambda word: _said(name, word))
        return found

    def text(self, name: str, place: int) -> str | None:
        """A word of a run; None without one."""
        number = self.columns.value(name, place)
        if number is None:
            return None
        found = self._texts.get((name, number))
        return self._look_ahead(self._texts, name, place, number, str) if found is None else found

    def _look_ahead(
        self, known: dict[tuple[str, int], _Said], name: str, place: int, own: int, said: Callable[[str], _Said]
    ) -> _Said:
        """Reads a word, and those of the next runs of its configuration: whoever asks for one asks for them, too.

        Several threads may ask at once. Raises UserError for the run's own word alone.
        """
        others = [number for number in self._ahead(name, place) if number != own and (name, number) not in known]
        words = self.store.words([own, *others])
        found = {(name, own): said(words.pop(own))}
        for number, word in words.items():
            with suppress(UserError):  # told when its own run is asked for
                found[name, number] = said(word)
        if len(known) + len(found) > MOST_FACTS:
            known.clear()
        known.update(found)
        return found[name, own]

    def _ahead(self, name: str, place: int) -> list[int]:
        """The numbers of a column's words at a place and at the next places of its configuration."""
        cells = self.columns.column("cell")[place:]
        places = place + np.flatnonzero(cells == cells[0])[:MOST_AHEAD]
        numbers = self.columns.column(name)[places]
        return np.unique(numbers[numbers != NO_TEXT]).tolist()  # type: ignore[no-any-return]  # numpy says Any

    def whole_info(self, run_id: int) -> RunInfo:
        """All that is known of a run; of the last few it is remembered."""
        with self._lock:
            found = self._infos.get(run_id)
            if found is None:
                found = self._infos[run_id] = self.store.whole_info(run_id)
                if len(self._infos) > MOST_INFOS:
                    self._infos.popitem(last=False)
            return found


def _said(name: str, text: str) -> Any:
    try:
        value = json.loads(text)
        if name == "settings":
            return settings_from_json(value)
        if name == "sample":
            return Sample.from_json(value)
        return value if name == STATE else reader_of(hints_of(RunInfo)[name])(value)
    except (ValueError, RecursionError, UnfitError) as error:
        raise UserError(f"The {name} of a run in the session are not what evprof writes; use a copy of it.") from error


class StoredInfo(RunInfo):
    """What is known of a stored run: the summary's part at once, the rest read from the file when it is asked for."""

    _runs: SessionRuns
    _place: int

    @classmethod
    def made(cls, runs: SessionRuns, place: int) -> StoredInfo:
        """Of the run at a place in the columns."""
        info = cls.__new__(cls)
        info.__dict__.update(_runs=runs, _place=place)
        return info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunInfo) and self.to_json() == other.to_json()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # it changes

    def merge(self, facts: dict[str, Any]) -> None:
        """Takes newly known fields in; other runs, of which the same was known, keep what they have."""
        for name in facts:
            if name in self.__dataclass_fields__:
                self.__dict__[name] = copy.copy(getattr(self, name))
        super().merge(facts)


class _Field:
    """A field of RunInfo that is read when it is first asked for, unless something was said of it before."""

    def __init__(self, name: str, read: Callable[[StoredInfo], Any], *, is_kept: bool = True) -> None:
        self._name = name
        self._read = read
        self._is_kept = is_kept

    def __get__(self, info: StoredInfo | None, _: object) -> Any:
        if info is None:
            return self
        found = self._read(info)
        if self._is_kept:
            info.__dict__[self._name] = found
        return found


def _number(name: str) -> Callable[[StoredInfo], Any]:
    is_truth = hints_of(RunInfo)[name] is bool

    def read(info: StoredInfo) -> Any:
        found = info._runs.columns.value(name, info._place)
        return bool(found) if is_truth else found

    return read


def _word(name: str) -> Callable[[StoredInfo], Any]:
    nothing = "" if hints_of(RunInfo)[name] is str else None

    def read(info: StoredInfo) -> Any:
        found = info._runs.text(name, info._place)
        return nothing if found is None else found

    return read


def _fact(name: str) -> Callable[[StoredInfo], Any]:
    make = {"dict": dict, "list": list}.get(getattr(hints_of(RunInfo)[name], "__name__", ""))

    def read(info: StoredInfo) -> Any:
        found = info._runs.fact(name, info._place)
        if found is None and make is not None:
            return make()
        return list(found) if make is list else found

    return read


def _environment(info: StoredInfo) -> dict[str, Any]:
    shared: dict[str, Any] = info._runs.fact("environment", info._place) or {}
    own = info._runs.fact(STATE, info._place)
    return {**shared, **own} if isinstance(own, dict) else shared


def _heavy(name: str) -> Callable[[StoredInfo], Any]:
    return lambda info: getattr(info._runs.whole_info(info.run_id), name)


for _name in NUMBERS:
    setattr(StoredInfo, _name, _Field(_name, _number(_name)))
for _name in WORDS:
    setattr(StoredInfo, _name, _Field(_name, _word(_name)))
for _name in FACTS:
    setattr(StoredInfo, _name, _Field(_name, _fact(_name)))
for _name in HEAVY:
    setattr(StoredInfo, _name, _Field(_name, _heavy(_name), is_kept=False))
for _name, _read in (
    ("environment", _environment),
    ("settings", lambda info: info._runs.fact("settings", info._place)[0]),
    ("given", lambda info: info._runs.fact("settings", info._place)[1]),
):
    setattr(StoredInfo, _name, _Field(_name, _read))


class KeptOfRun(Mapping[str, Any]):
    """The figures kept of a stored run, by name."""

    def __init__(self, runs: SessionRuns, place: int) -> None:
        self._runs = runs
        self._place = place

    def __getitem__(self, name: str) -> Any:
        columns = self._runs.columns
        found = columns.value(name, self._place)
        return found if found is None or columns.kinds[name] != TEXT else self._runs.text(name, self._place)

    def get(self, name: str, default: Any = None) -> Any:
        """The figure of a name: None where the run has none, `default` where the summary does not tell it."""
        columns = self._runs.columns
        found = columns.look(name, self._place, default)
        if found is not default and columns.kinds[name] == TEXT:
            return self._runs.text(name, self._place)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._runs.columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs.columns.names)

    def __len__(self) -> int:
        return len(self._runs.columns.names)


_FETCHING = threading.RLock()


_OF_ROWS = frozenset(RunLog(RunInfo(0, 0, 0, "", "")).__dict__) - {"info", "version", "_draining"}
"""What a run has only with its rows."""


class StoredRun(RunLog):
    """A run whose rows are read from the file when somebody asks for what its summary does not tell."""

    _runs: SessionRuns
    _place: int

    @classmethod
    def made(cls, runs: SessionRuns, place: int) -> StoredRun:
        """The run at a place in the columns."""
        run = cls.__new__(cls)
        info = StoredInfo.made(runs, place)
        run.__dict__.update(info=info, version=0, kept=KeptOfRun(runs, place), _runs=runs, _place=place)
        return run

    def __getattr__(self, name: str) -> Any:
        """What a run has only with its rows: they are read now."""
        if name not in _OF_ROWS:
            raise AttributeError(name)
        with _FETCHING:
            if name not in self.__dict__:
                self._fetch()
            return self.__dict__[name]

    @property
    def columns(self) -> StoredColumns:
        """The summaries of its session."""
        return self._runs.columns

    @property
    def rounds(self) -> list[RoundRecord]:
        """The rounds of speculation; of a run whose summary tells them, its rows are not asked for."""
        if self.kept is not None and "_blocks" not in self.__dict__:
            told = self.kept.get(ROUNDS, "")
            if told != "":
                return [] if told is None else [RoundRecord(self.run_id, *row) for row in json.loads(told)]
        return super().rounds

    @property
    def judgements(self) -> list[JudgementRecord]:
        """What both models thought of drafted tokens; where there is none, the rows are not asked for it."""
        return [] if self.kept is not None and self.kept.get(JUDGED) == 0 else super().judgements

    @property
    def has_tensors(self) -> bool:
        """Whether it is known what went in and out of anything; the summary tells."""
        return self.columns.value("first_tensor", self._place) is not None

    def let_go(self) -> None:
        """Forgets the rows; they are read again when they are asked for."""
        with _FETCHING:
            for name in _OF_ROWS:
                self.__dict__.pop(name, None)

    def _fetch(self) -> None:
        columns = self._runs.columns
        lies = [columns.value(name, self._place) for name in CHUNKS]
        recording, problems = self._runs.store.rows(self.run_id, lies)
        loaded = RunLog(self.info)
        for stream in recording.streams.values():
            for _, block in blocks_by_run(stream, 0, len(stream)):
                loaded.take(*block)
        for name in _OF_ROWS:
            self.__dict__.setdefault(name, loaded.__dict__[name])
        self._runs.note_fetched(self)
        for sentence in problems:
            from evprof.session.reading import spoil  # it brings SQLite, which lists without stored runs need not

            spoil(self.info, sentence)
            self.kept = None
            self.version += 1
