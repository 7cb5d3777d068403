"""What a session holds of every run besides its rows and facts: one short row of numbers, so that lists, filters and
comparisons of very many runs read neither.

A row is numbers end to end in the order of its layout, a JSON list of names and kinds that is itself a word. Texts are
numbers of words, each of which stands once in the table `words`. It knows no figure; see `evprof.metrics.run_summary`.
"""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from evprof.core.plain import plain_values
from evprof.core.rows.kinds import INTEGER, NO_INTEGER, NO_TEXT, REAL, TEXT
from evprof.core.run_info import RunInfo
from evprof.core.run_settings import settings_to_json
from evprof.session.validation import readable

if TYPE_CHECKING:
    import sqlite3

    from evprof.session.checksums import CheckedTables

CHUNKS = ("first_chunk", "last_chunk", "first_tensor", "last_tensor")
"""Where a run's rows lie: the numbers of its first and last chunk and tensor; nothing where it has none."""

ENVIRONMENT_OF_RUN = ("gpu", "gpu_end")
"""Entries of a run's environment that are another in every run."""

NUMBERS = ("run_id", "group_id", "repeat", "warmup", "profiled", "is_deleted", "start_ns", "end_ns")
WORDS = ("role", "mode", "status", "error", "started_at", "cell", "name", "note", "text")
_FACTS = (
    "models",
    "setup",
    "lengths",
    "kv",
    "loading",
    "memory",
    "speculation",
    "imported",
    "baseline",
    "chosen_baseline",
    "warnings",
)
FACTS = ("settings", "sample", "environment", *_FACTS)
"""Fields of RunInfo that are kept as JSON, many runs' as one word."""

STATE = "environment_of_run"

INFO_COLUMNS: dict[str, str] = {
    **dict.fromkeys(NUMBERS, INTEGER),
    **dict.fromkeys((*WORDS, *FACTS, STATE), TEXT),
    **dict.fromkeys(CHUNKS, INTEGER),
}
"""What is known of a run apart from its figures: name -> kind."""

HEAVY = tuple(entry.name for entry in fields(RunInfo) if entry.name not in INFO_COLUMNS and entry.name != "given")
"""Fields of RunInfo that are only in the run's own row."""

MOST_WORDS = 4096
"""Words a writer remembers the numbers of."""


def changed_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Some fields of RunInfo, as plain values, as INFO_COLUMNS keeps them; of the environment what runs share."""
    found = dict(values)
    if "environment" in found:
        shared = found["environment"].items()
        found["environment"] = {name: value for name, value in shared if name not in ENVIRONMENT_OF_RUN}
    return {name: _json(value) if name in FACTS else value for name, value in found.items()}


def info_values(info: RunInfo) -> dict[str, Any]:
    """The values of INFO_COLUMNS but for CHUNKS."""
    found: dict[str, Any] = {name: getattr(info, name) for name in (*NUMBERS, *WORDS)}
    settings = info.settings.to_json() if info.given is None else settings_to_json(info.settings, info.given)
    sample = info.sample
    state = {name: info.environment[name] for name in ENVIRONMENT_OF_RUN if info.environment.get(name) is not None}
    facts = {
        "settings": settings,
        "sample": plain_values(sample),
        "environment": {name: value for name, value in info.environment.items() if name not in state},
        **{name: _plain(getattr(info, name)) for name in _FACTS},
        STATE: state or None,
    }
    told = {name: _json(value) for name, value in facts.items()}
    return found | told | {"settings": _always(settings), "sample": _always(facts["sample"])}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return plain_values(value) if hasattr(value, "__dataclass_fields__") else value


def _json(value: Any) -> str | None:
    return json.dumps(value, default=str, skipkeys=True) if value not in (None, {}, []) else None


def _always(value: Any) -> str:
    return json.dumps(value, default=str, skipkeys=True)


class WordNumbers:
    """Numbers of words for one writer: `add` makes one; those used lately are remembered."""

    def __init__(self, add: Callable[[str], int]) -> None:
        self._add = add
        self._known: OrderedDict[str, int] = OrderedDict()

    def __getitem__(self, word: str) -> int:
        number = self._known.get(word)
        if number is None:
            number = self._known[word] = self._add(word)
            if len(self._known) > MOST_WORDS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(word)
        return number

    def forget(self) -> None:
        """After a transaction that was taken back."""
        self._known.clear()


def packed(values: Mapping[str, Any], columns: Mapping[str, str], numbers: WordNumbers) -> tuple[int, bytes]:
    """The number of the layout and the row of a run."""
    layout, shape = _layout_of(tuple(columns.items()))
    found = (_number(values.get(name), kind, numbers) for name, kind in columns.items())
    return numbers[layout], shape.pack(*found)


@lru_cache(maxsize=16)
def _layout_of(columns: tuple[tuple[str, str], ...]) -> tuple[str, struct.Struct]:
    """A layout as the file says it, and how its rows are packed: of thousands of runs the same."""
    return json.dumps(columns), struct.Struct("<" + "".join(kind for _, kind in columns))


def _number(value: Any, kind: str, numbers: WordNumbers) -> float | int:
    if kind == REAL:
        return math.nan if value is None else float(value)
    if value is None:
        return NO_TEXT if kind == TEXT else NO_INTEGER
    if kind == TEXT:
        return numbers[value.encode("utf-8", "backslashreplace").decode("utf-8")]
    return int(value)


@dataclass(frozen=True)
class KeptFigures:
    """What is kept of a run that has ended: its facts, and its figures with their kinds, by name. `is_read`: its facts
    come from a session, and are as a reader knows them."""

    info: RunInfo
    values: Mapping[str, Any]
    columns: Mapping[str, str]
    is_read: bool = False

    def facts(self) -> dict[str, Any] | None:
        """The values of INFO_COLUMNS but for CHUNKS; None of a run that no reader could know."""
        info = self.info if self.is_read else readable(self.info)
        return None if info is None else info_values(info)


@dataclass(frozen=True)
class CopiedSummary:
    """The summary of another session's run: all values, those of INFO_COLUMNS too, with their kinds, by name."""

    values: Mapping[str, Any]
    columns: Mapping[str, str]

    def facts(self) -> dict[str, Any]:
        """They are among the values."""
        return {}


class SummaryWriter:
    """The tables `summaries` and `words` of a session that is being written."""

    def __init__(self, connection: sqlite3.Connection, tables: CheckedTables) -> None:
        self._connection = connection
        self._tables = tables
        self._numbers = WordNumbers(self._add_word)
        self._next_word: int | None = None
        self._lies: dict[int, list[int | None]] = {}
        """Of runs begun here that have no summary yet, the values of CHUNKS."""

    def begin(self, run_ids: Iterable[int]) -> None:
        """Notes runs of which the file holds no rows."""
        self._lies.update((run_id, [None] * len(CHUNKS)) for run_id in run_ids)

    def note_rows(self, table: str, run_ids: Sequence[int], first: int) -> None:
        """Rows were added: the chunk `first` of these runs, or tensors from the number `first` on, one for each."""
        for place, run_id in enumerate(run_ids):
            number, at = (first, 0) if table == "chunks" else (first + place, 2)
            known = self._lies.get(run_id)
            if known is None:
                # What was summarized, or begun by another writer, has more rows now than that knew.
                self._tables.remove("summaries", run_id)
                continue
            known[at] = number if known[at] is None else known[at]
            known[at + 1] = number

    def put(self, infos: Iterable[RunInfo], figures: Mapping[int, KeptFigures | CopiedSummary]) -> None:
        """Writes the summaries of runs whose `figures` are known, and those again of which other facts are."""
        for run_id, kept in figures.items():
            columns, facts = INFO_COLUMNS | dict(kept.columns), kept.facts()
            if facts is None:
                continue
            lies = self._lies.pop(run_id, None) or self._found(run_id)
            values = {**kept.values, **facts, **dict(zip(CHUNKS, lies, strict=True))}
            self._tables.put("summaries", (run_id, *packed(values, columns, self._numbers)))
        for info in infos:
            if info.run_id not in figures and info.is_over:
                self._put_info(info)

    def _put_info(self, info: RunInfo) -> None:
        row = self._connection.execute(
            "SELECT layout, word, numbers FROM summaries, words WHERE run_id = ? AND layout = word_id", (info.run_id,)
        ).fetchone()
        if row is None:
            return
        columns = dict(json.loads(row[1]))
        before = struct.unpack("<" + "".join(columns.values()), row[2])
        clean = readable(info)
        if clean is None:
            return
        values = info_values(clean)
        numbers = [
            _number(values[name], kind, self._numbers) if name in values else number
            for (name, kind), number in zip(columns.items(), before, strict=True)
        ]
        self._tables.put("summaries", (info.run_id, row[0], struct.pack("<" + "".join(columns.values()), *numbers)))

    def _found(self, run_id: int) -> list[int | None]:
        """Where the rows of a run lie that another writer began."""
        chunks = self._connection.execute(
            "SELECT min(chunk_id), max(chunk_id) FROM chunks WHERE first_run <= ? AND last_run >= ?", (run_id, run_id)
        ).fetchone()
        tensors = self._connection.execute(
            "SELECT min(tensor_id), max(tensor_id) FROM tensors WHERE run_id = ?", (run_id,)
        ).fetchone()
        return [*chunks, *tensors]

    def _add_word(self, word: str) -> int:
        if self._next_word is None:
            self._next_word = int(self._connection.execute("SELECT max(word_id) FROM words").fetchone()[0] or 0) + 1
        number, self._next_word = self._next_word, self._next_word + 1
        self._tables.insert("words", [(number, word)])
        return number

    def forget(self) -> None:
        """After a commit that was taken back: nothing of it is there."""
        self._numbers.forget()
        self._next_word = None
        self._lies.clear()
