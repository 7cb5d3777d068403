"""Copies the runs of a session into another file, their numbers moved on.

Everything is read and written a few megabytes at a time; what the disk changed refuses the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.errors import Cancelled, UserError
from evprof.core.files.new_file import hidden_name
from evprof.core.protocols import StopFlag
from evprof.core.recording import Texts
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import bytes_text
from evprof.session import chunk
from evprof.session.opened import OpenedSession, open_session
from evprof.session.opening import opened
from evprof.session.presence import is_written, reserved
from evprof.session.reading import SessionReading, masked
from evprof.session.store import Copies, SessionFile
from evprof.session.tables import DamageError, whole_rows

_AT_ONCE = 200
_BYTES_AT_ONCE = 8 << 20
_SPARE_BYTES = 16 << 20

Watch = Callable[[str, int, int], None]
"""Told what is done with how many of how many runs; raises `Cancelled` where somebody wants it to end."""


@dataclass
class SourceSession:
    """A session that is copied: `runs_on` and `groups_on` are added to the numbers of its runs and requests."""

    path: Path
    session: OpenedSession
    runs_on: int = 0
    groups_on: int = 0
    change: Callable[[RunInfo], dict[str, Any]] = lambda _: {}
    """What else becomes of a run's facts: plain values by field."""

    @property
    def runs(self) -> dict[int, RunLog]:
        """All that are copied, deleted ones too."""
        every = {**self.session.runs, **self.session.deleted}
        return {run_id: every[run_id] for run_id in sorted(every)}

    @property
    def last_run(self) -> int:
        """Its highest number of a run; 0 without one."""
        return max((*self.session.runs, *self.session.deleted), default=0)

    @property
    def last_group(self) -> int:
        """Its highest number of a request."""
        return max((run.info.group_id for run in self.runs.values()), default=0)


def open_source(path: Path) -> SourceSession:
    """A session to copy. Raises UserError where it cannot be read, or is being recorded."""
    if is_written(path):
        raise UserError(f"{path} is being recorded; wait until that has ended.")
    return SourceSession(path, open_session(path))


def check_room(place: Path, needed: int) -> None:
    """Raises UserError unless there is room for so many bytes where `place` lies."""
    folder = place.absolute().parent
    if not folder.is_dir():
        raise UserError(f"There is no folder '{folder}' to write '{place.name}' to; make it first.")
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise UserError(
            f"'{place}' would take about {bytes_text(needed)}, and there are {bytes_text(free)} free on its disk; "
            "make room, or name a place on another disk."
        )


@contextmanager
def whole_session(output: Path) -> Iterator[SessionFile]:
    """A new session that is in its place when all went well; else nothing is there."""
    if output.exists():
        raise UserError(f"'{output}' exists already; name another file.")
    part = output.with_name(hidden_name())
    try:
        with reserved(output):
            with closing(SessionFile(part)) as file:
                yield file
            os.replace(part, output)
    except (OSError, sqlite3.Error) as error:
        raise UserError(f"'{output}' cannot be written: {error}; name another place, or make room.") from error
    finally:
        for ending in ("", "-wal", "-shm", "-journal", "-lock"):
            part.with_name(part.name + ending).unlink(missing_ok=True)


def copy_session_into(file: SessionFile, source: SourceSession, watch: Watch) -> None:
    """Copies every run of a source. Raises UserError where its rows are not as they were written."""
    runs = source.runs
    try:
        with ExitStack() as stack:
            reading = SessionReading(source.path, stack.enter_context(opened(source.path)), stack)
            _copy_rows(file, source, reading, runs, watch)
            _copy_infos(file, source, reading, runs, watch)
    except DamageError as damage:
        raise UserError(f"{source.path} is damaged: {damage}; nothing was written.") from damage
    except UnicodeDecodeError as error:
        raise UserError(f"{source.path} cannot be read: {error}; nothing was written.") from error


def _copy_rows(
    file: SessionFile, source: SourceSession, reading: SessionReading, runs: Collection[int], watch: Watch
) -> None:
    ids = np.array(sorted(runs), dtype=np.int64)
    copies, size, seen = Copies(), 0, 0
    for values in whole_rows(reading.connection, "chunks"):
        kept = _chunk(reading, source, values, ids)
        if kept is None:
            continue
        copies.chunks.append(kept)
        size += len(kept[4])
        seen = max(seen, int(np.searchsorted(ids, kept[6] - source.runs_on)))
        if size > _BYTES_AT_ONCE or len(copies.chunks) >= _AT_ONCE:
            file.copy_rows(copies)
            copies, size = Copies(), 0
            watch("rows", seen, len(ids))
    file.copy_rows(copies)
    copies = Copies()
    for values in whole_rows(reading.connection, "tensors"):
        if values[1] in runs:
            copies.tensors.append((values[1] + source.runs_on, *values[2:]))
        if len(copies.tensors) >= 20 * _AT_ONCE:
            file.copy_rows(copies)
            copies = Copies()
            watch("tensors", int(np.searchsorted(ids, values[1])), len(ids))
    file.copy_rows(copies)


def _chunk(
    reading: SessionReading, source: SourceSession, values: tuple[Any, ...], ids: Any
) -> tuple[str, int, int | None, int | None, bytes, int, int] | None:
    """A chunk as it is copied; None where nothing of it is."""
    _, stream, row_count, first_ns, last_ns, content, *_ = values
    reading.renew()
    try:
        of_rows = chunk.run_ids(row_count, content)
    except chunk.ChunkError as error:
        raise DamageError(f"a block of its {stream} cannot be unpacked ({error})") from error
    mask = np.isin(of_rows, ids)
    if not mask.any():
        return None
    first, last = (int(end) + source.runs_on for end in (of_rows[mask].min(), of_rows[mask].max()))
    if mask.all():
        moved = chunk.moved_on(content, source.runs_on) if source.runs_on else content
        return stream, row_count, first_ns, last_ns, moved, first, last
    _, columns = reading.unpack(values)
    kept = [_plain(masked(column, mask)) for column in columns]
    kept[0] = kept[0] + source.runs_on
    return stream, len(kept[0]), first_ns, last_ns, chunk.pack(stream, kept), first, last


def _plain(column: Any) -> Any:
    return column.texts() if isinstance(column, Texts) else column


def _copy_infos(
    file: SessionFile, source: SourceSession, reading: SessionReading, runs: dict[int, RunLog], watch: Watch
) -> None:
    from evprof.metrics.run_summary import summary_of

    connection = reading.connection
    hashes: dict[int, list[tuple[str, str, str | None]]] = {}
    for run_id, kind, path, content_hash in whole_rows(connection, "samples"):
        hashes.setdefault(run_id, []).append((kind, path, content_hash))
    figures: dict[int, str] = dict(whole_rows(connection, "figures"))
    copies, done = Copies(), 0
    for row in whole_rows(connection, "runs"):
        run = runs.get(row[0])
        if run is None:
            continue
        if done % _AT_ONCE == 0:
            file.copy_rows(copies)
            copies = Copies()
            watch("runs", done, len(runs))
        done += 1
        changes = changes_of(source, run.info)
        run_id = changes["run_id"]
        copies.samples += [(run_id, *entry) for entry in hashes.get(row[0], ())]
        if row[0] in figures:
            copies.rows.append(_changed_row(reading, row, changes))
            copies.figures[run_id] = figures[row[0]]
        else:
            info = replace(run.info.copied(), **changes)
            copies.infos.append(info)
            if info.is_over:
                copies.figures[run_id] = json.dumps(summary_of(run))
    file.copy_rows(copies)


def changes_of(source: SourceSession, info: RunInfo) -> dict[str, Any]:
    """What is another of a run in the copy, as plain values by field: numbers, and `source.change`."""
    return {
        "run_id": info.run_id + source.runs_on,
        "group_id": info.group_id + source.groups_on,
        "baseline": [number + source.runs_on for number in info.baseline],
        "chosen_baseline": [number + source.runs_on for number in info.chosen_baseline],
        **source.change(info),
    }


def _changed_row(
    reading: SessionReading, row: tuple[Any, ...], changes: dict[str, Any]
) -> tuple[int, int, str, str | None, str]:
    """A row of the table of runs with changes; what it says else stays to the letter."""
    _, _, status, text, told = row
    reading.renew()
    facts = reading.json(told)
    if not isinstance(facts, dict):
        raise DamageError(f"the facts of run {row[0]} are not what evprof writes")
    return changes["run_id"], changes["group_id"], status, text, json.dumps({**facts, **changes})


def stopping(stop: StopFlag, watch: Watch) -> Watch:
    """Watches, and ends the work where somebody asked for it."""

    def look(what: str, done: int, total: int) -> None:
        if stop.is_set():
            raise Cancelled
        watch(what, done, total)

    return look


def file_bytes(paths: Sequence[Path]) -> int:
    """How much sessions take on the disk."""
    return sum(path.stat().st_size for path in paths)
