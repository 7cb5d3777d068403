"""Sessions read with all their rows, for tests that look at the whole content of a file."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.protocols import RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import column_kinds
from evprof.session.opened import OpenedSession, open_session


def load_session(path: Path, *, takes_damage: bool = False) -> OpenedSession:
    """A session whose recording holds all rows.

    Raises UserError for damaged rows and facts, unless `takes_damage`: then their runs have failed.
    """
    session, recording = open_session(path), RecordLog()
    source, infos = session.recording.source, []
    for run_id, run in session.every_run.items():
        assert source is not None
        rows, problem = source.rows(run_id)
        if (run.info.error or "").startswith("The facts of this run are damaged"):
            problem = problem or run.info.error or ""
        if problem and not takes_damage:
            raise UserError(f"{path} is damaged: {problem}")
        if problem:
            run.info.spoil(problem)
        for name, stream in rows.streams.items():
            kinds = column_kinds(name).items()
            recording.streams[name].extend_columns(
                [(stream.texts if kind == "str" else stream.column)(column) for column, kind in kinds]
            )
        infos.append(run.info)
    for info in infos:
        recording.post(RunStarted(info.run_id, info))
    session.close()
    session.recording = recording
    return session


def read_session(path: Path) -> RecordLog:
    return load_session(path).recording
