"""Imports result files of other programs: every row becomes a run, named by its configuration and its file.

The clock of these runs is made up: stages one after the other from 0. A time that covers several stages is never split.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import hidden_name, put_new
from evprof.core.recording import RecordLog
from evprof.core.records import COVERS, END, NO_TOKEN_ID, ORIGIN_TARGET, SETTLED, SpanRecord, TokenRecord
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, ImportedFacts, MemoryFacts, RunInfo
from evprof.core.sample import Sample
from evprof.core.units import NS_PER_MS
from evprof.core.vocabulary.settings import settings_from_json
from evprof.loaders.legacy.family import LegacyFile, open_legacy
from evprof.loaders.legacy.rows import NUMBERED, LegacyRow, shortened
from evprof.metrics.arithmetic.statistics import warmup_count
from evprof.run.session_target import kept_figures, runs_of
from evprof.session.presence import reserved
from evprof.session.store import Commit, SessionFile

IMPORTS = "imports"
"""The fact of a session about its imported files."""

ROWS_PER_COMMIT = 2000

RECORDS_PER_COMMIT = 100_000
"""Tokens, and characters of texts divided by ten."""

MOST_TIMED_TOKENS, MOST_TEXT = 2_000_000, 64 << 20
"""Tokens with times, and characters of answers, of one file: a session with more cannot be opened."""

LONGEST_ERROR, LONGEST_NAME = 2000, 200

Progress = Callable[[Path, int, int], None]
"""Called with the file, the rows read of it, and the rows it has."""


@dataclass
class ImportedFile:
    """What became of one file. `rows` are the file's, `runs` the session's: a row with two models is two."""

    path: Path
    family: str
    rows: int
    runs: int = 0
    failed: int = 0
    warmups: int = 0
    first_run_id: int = 0
    duration_ms: float = 0.0
    problems: list[str] = field(default_factory=list)
    cells: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The entry of the `import` document."""
        cells = [{"label": label, "runs": count} for label, count in self.cells.items()]
        return {**vars(self), "path": str(self.path), "cells": cells}


@dataclass(frozen=True)
class ImportSummary:
    """A session and the files that were imported into it."""

    session: Path
    files: tuple[ImportedFile, ...]

    @property
    def runs(self) -> int:
        return sum(file.runs for file in self.files)


def import_files(
    paths: Sequence[str | Path],
    session_path: str | Path,
    on_progress: Progress | None = None,
    *,
    is_passing: bool = False,
) -> ImportSummary:
    """Appends the rows of result files to a session, new or existing. `is_passing`: it keeps no figures beside its
    rows, because it is read once and thrown away.

    Raises UserError, and writes nothing, when a file is damaged, of no known family, named twice or imported already,
    and when the session cannot be written.
    """
    files = [open_legacy(path) for path in paths]
    if not files:
        raise UserError("There is nothing to import; name at least one JSON file of results.")
    _refuse_twice([file.path for file in files])
    session = Path(session_path)
    with _put_in_place(session) as part, closing(SessionFile(part)) as writer:
        done = tuple(_import_all(files, writer, on_progress, is_passing=is_passing))
    return ImportSummary(session, done)


@contextmanager
def _put_in_place(session: Path) -> Iterator[Path]:
    """A copy of the session, or a new file, that takes its place at the end. After an error nothing has changed."""
    if not session.parent.is_dir():
        raise UserError(f"{session} cannot be written: the folder {session.parent} does not exist; create it first.")
    part = session.with_name(hidden_name())
    try:
        # Nobody else may write what is copied here and replaced in the end.
        with reserved(session):
            if session.exists():
                SessionFile(session).close()  # refuses what is none, and folds its log in
                put_new(part, b"")
                shutil.copyfile(session, part)
            yield part
            os.replace(part, session)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"{session} cannot be written: {error}; choose another place, or free some space.") from error
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def _import_all(
    files: Sequence[LegacyFile], writer: SessionFile, on_progress: Progress | None, *, is_passing: bool
) -> Iterable[ImportedFile]:
    told = writer.fact(IMPORTS)
    known: list[dict[str, Any]] = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
    _refuse_twice([*(str(entry.get("path")) for entry in known), *(file.path for file in files)])
    for file in files:
        importing = _Import(file, writer, _label(file.path, known), on_progress, is_passing=is_passing)
        found = importing.run()
        known.append(importing.facts(found))
        writer.commit({}, Commit(facts={IMPORTS: known}))
        yield found


def _refuse_twice(paths: Sequence[str | Path]) -> None:
    seen: set[str] = set()
    for path in paths:
        absolute = str(Path(path).absolute())
        if absolute in seen:
            raise UserError(f"{path}: is imported into this session already; every file goes in once.")
        seen.add(absolute)


def _label(path: Path, known: Sequence[dict[str, Any]]) -> str:
    """How runs name their file: as short as tells it from the others."""
    names = {Path(str(entry.get("path"))).name for entry in known}
    return path.name if path.name not in names else f"{path.absolute().parent.name}/{path.name}"


class _Import:
    def __init__(
        self, file: LegacyFile, writer: SessionFile, label: str, on_progress: Progress | None, *, is_passing: bool
    ) -> None:
        self._is_passing = is_passing
        self._file = file
        self._writer = writer
        self._label = label
        self._path = str(file.path.absolute())
        self._on_progress = on_progress
        self._reading = file.read()
        self._warm_groups = _warmup_groups(file.first_rows())
        self._next_run_id, self._next_group_id = writer.next_run_id, writer.next_group_id
        self._groups: dict[tuple[int, bool], int] = {}
        self._timed_tokens = self._text = 0
        self._started_at = _started_at(file.preview.head)

    def run(self) -> ImportedFile:
        began = time.perf_counter()
        found = ImportedFile(self._file.path, self._file.family.name, self._file.rows, first_run_id=self._next_run_id)
        batch: list[LegacyRow] = []
        waiting = 0
        for row in map(self._shortened, self._reading.rows()):
            batch.append(row)
            waiting += len(row.token_ids) + len(row.token_times_ms) + len(row.text or "") // 10
            if len(batch) >= ROWS_PER_COMMIT or waiting >= RECORDS_PER_COMMIT:
                self._write(batch, found)
                batch, waiting = [], 0
        self._write(batch, found)
        if not found.runs:
            raise UserError(
                f"{self._file.path}: is of the family {self._file.family.name} and holds no times of a single row or "
                "request, so there is no run to import."
            )
        self._writer.next_run_id, self._writer.next_group_id = self._next_run_id, self._next_group_id
        found.problems = self._reading.problems.sentences(found.rows)
        found.duration_ms = (time.perf_counter() - began) * 1000
        return found

    def _shortened(self, row: LegacyRow) -> LegacyRow:
        problems = self._reading.problems
        if row.token_times_ms and self._timed_tokens + len(row.token_times_ms) > MOST_TIMED_TOKENS:
            problems.of_row("times of single tokens were left out: a session holds no more", row.row)
            row = replace(row, token_times_ms=())
        if row.text and self._text + len(row.text) > MOST_TEXT:
            problems.of_row("texts were left out: a session holds no more", row.row)
            row = replace(row, text=None)
        self._timed_tokens += len(row.token_times_ms)
        self._text += len(row.text or "")
        return row

    def _write(self, rows: Sequence[LegacyRow], found: ImportedFile) -> None:
        if not rows:
            return
        recording = RecordLog()
        infos: list[RunInfo] = []
        spans: list[SpanRecord] = []
        tokens: list[TokenRecord] = []
        for row in rows:
            is_warm = row.group in self._warm_groups and row.error is None
            info = self._info(replace(row, is_warmup=is_warm) if is_warm else row)
            infos.append(info)
            end_ns = _add_spans(row, info.run_id, spans)
            tokens += _tokens(row, info.run_id, end_ns)
            found.runs += 1
            found.failed += row.error is not None
            found.warmups += info.warmup and row.error is None
            found.cells[info.cell] = found.cells.get(info.cell, 0) + 1
        recording.extend("spans", spans)
        recording.extend("tokens", tokens)
        ranges = {name: (0, len(stream)) for name, stream in recording.streams.items() if len(stream)}
        begun = frozenset(info.run_id for info in infos)
        figures = {} if self._is_passing else kept_figures(runs_of(recording, infos))
        self._writer.commit(recording.streams, Commit(ranges, infos, begun, figures=figures))
        if self._on_progress is not None:
            self._on_progress(self._file.path, found.runs, found.rows)

    def _info(self, row: LegacyRow) -> RunInfo:
        run_id, self._next_run_id = self._next_run_id, self._next_run_id + 1
        weights = row.models[row.role].weight_bytes if row.role in row.models else None
        settings, given = settings_from_json(row.settings)
        return RunInfo(
            run_id=run_id,
            group_id=self._group(row),
            repeat=0,
            role=row.role,
            mode=row.mode,
            settings=settings,
            given=given,
            sample=Sample(row.events_path, row.video_path, row.prompt, shortened(self._sample(row), LONGEST_NAME)),
            started_at=row.started_at or self._started_at,
            status=FINISHED if row.error is None else CANCELLED if row.is_cancelled else FAILED,
            error=None if row.error is None else shortened(row.error, LONGEST_ERROR),
            warmup=row.is_warmup,
            start_ns=0 if row.intervals else None,
            models=dict(row.models),
            lengths={} if row.lengths is None else {row.role: row.lengths},
            memory=MemoryFacts(weights_bytes=weights, peak_allocated_bytes=row.peak_bytes),
            text=row.text,
            cell=f"{row.cell} · {self._label}",
            imported=ImportedFacts(
                self._path,
                self._file.family.name,
                row.row,
                row.output_tokens,
                row.decode_steps,
                row.figures,
                list(row.notes),
                row.has_first_token_time,
                bool(row.token_times_ms),
                {str(accepted): count for accepted, count in row.accepted_histogram.items()},
            ),
        )

    def _sample(self, row: LegacyRow) -> str:
        """A sample's name, with its data set if it is a number alone."""
        dataset = self._file.preview.dataset
        return f"{row.sample} of {dataset}" if dataset and NUMBERED.fullmatch(row.sample) else row.sample

    def _group(self, row: LegacyRow) -> int:
        key = (row.group, row.side == "errors")
        if key not in self._groups:
            self._groups[key], self._next_group_id = self._next_group_id, self._next_group_id + 1
        return self._groups[key]

    def facts(self, found: ImportedFile) -> dict[str, Any]:
        """What the session keeps of the file: see `docs/json.md`."""
        config = self._reading.config
        return found.to_json() | {
            "path": self._path,
            "config": {key: value for key, value in config.items() if isinstance(value, str | int | float | bool)},
            "covers": self._reading.covers,
            "totals": self._reading.totals,
            "names": self._reading.names,
            "written_at": self._started_at,
        }


def _warmup_groups(rows: Iterable[LegacyRow]) -> frozenset[int]:
    """Which of the first rows warm up, by the times of vision and prefill of any model."""
    times: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        for entry in row.intervals:
            if "decode" not in entry.covers and {"vision", "prefill"} & set(entry.covers):
                times.setdefault((row.cell, entry.key), []).append((row.group, entry.duration_ms))
    warm: set[int] = set()
    for pairs in times.values():
        warm.update(group for group, _ in pairs[: warmup_count([duration for _, duration in pairs])])
    return frozenset(warm)


def _add_spans(row: LegacyRow, run_id: int, spans: list[SpanRecord]) -> int:
    """The row's intervals as settled spans; returns where the last one ends, in ns."""
    reach = 0
    for span_id, entry in enumerate(row.intervals):
        start = reach if entry.start_ms is None else round(entry.start_ms * NS_PER_MS)
        end = start + round(entry.duration_ms * NS_PER_MS)
        name = COVERS.join(entry.covers)
        for phase in (END, SETTLED):
            spans.append(SpanRecord(run_id, span_id, -1, phase, entry.role, name, start, end))
        reach = max(reach, end)
    return reach


def _tokens(row: LegacyRow, run_id: int, end_ns: int) -> list[TokenRecord]:
    """The row's tokens: their ids with made-up times, or their measured times without ids."""
    if row.token_times_ms:
        told = [(NO_TOKEN_ID, min(round(time_ms * NS_PER_MS), end_ns)) for time_ms in row.token_times_ms]
    else:
        told = [(token, end_ns) for token in row.token_ids]
    return [
        TokenRecord(run_id, row.role, place, token, ORIGIN_TARGET, -1, t_ns, "")
        for place, (token, t_ns) in enumerate(told)
    ]


def _started_at(head: dict[str, Any]) -> str:
    """When the file was written, in ISO 8601 without a zone; "" if unknown."""
    told = head.get("datetime", head.get("timestamp"))
    try:
        return datetime.fromisoformat(told).isoformat(timespec="seconds") if isinstance(told, str) else ""
    except ValueError:
        return ""
