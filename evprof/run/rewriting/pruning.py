"""Writes a session anew with less in it: without pictures, without logs, without deleted runs. Figures stay."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.protocols import StopFlag
from evprof.run.rewriting.copying import (
    Dropped,
    SourceSession,
    Watch,
    check_room,
    copy_session_into,
    open_source,
    stopping,
    whole_session,
)
from evprof.session.schema import FACT_PREFIX
from evprof.session.store import Copies

PRUNED = "pruned"
"""The fact that tells what was dropped when."""


@dataclass(frozen=True)
class PrunePlan:
    """What is dropped: pictures, logs, deleted runs; of the runs chosen by number or configuration, by default all."""

    frames: bool = False
    logs: bool = False
    deleted: bool = False
    numbers: Collection[int] | None = None
    cells: Collection[str] | None = None


@dataclass(frozen=True)
class PrunedSession:
    """What became of a session: how many runs lost what, and its bytes before and after."""

    path: Path
    runs: int
    without_logs: int
    without_frames: int
    removed: int
    bytes_before: int
    bytes_after: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**vars(self), "path": str(self.path)}


def prune_session(path: Path, output: Path, plan: PrunePlan, stop: StopFlag, watch: Watch) -> PrunedSession:
    """Writes `path` with less in it to `output`: another file, or, in place of it, itself.

    Raises UserError, and changes nothing, where that cannot be; Cancelled where `stop` is.
    """
    if not (plan.frames or plan.logs or plan.deleted):
        raise UserError("Say what is to be dropped: --frames, --logs or --deleted.")
    is_in_place = output.resolve() == path.resolve()
    source = open_source(path)
    before = path.stat().st_size
    check_room(output, before)
    source.dropped = dropped_by(plan, source)
    with whole_session(output, replaces=is_in_place) as file:
        copy_session_into(file, source, stopping(stop, watch))
        file.copy_rows(Copies(session=_session(source, plan)))
        release(source)
    dropped = source.dropped
    without_logs = len(dropped.logs)
    return PrunedSession(
        output,
        len(source.runs),
        without_logs,
        without_logs + len(dropped.frames - dropped.logs),
        len(dropped.runs),
        before,
        output.stat().st_size,
    )


def release(source: SourceSession) -> None:
    """Lets go of a file that is to be replaced."""
    if source.session.stored is not None:
        source.session.stored.store.release()


def dropped_by(plan: PrunePlan, source: SourceSession) -> Dropped:
    """What a plan leaves out of a session. Raises UserError where it chooses runs that are not there."""
    removed = frozenset(source.session.deleted) if plan.deleted else frozenset[int]()
    chosen = frozenset(
        run_id
        for run_id, run in source.runs.items()
        if (plan.numbers is None or run_id in plan.numbers)
        and (plan.cells is None or run.info.cell in plan.cells)
        and run.info.is_over
        and run_id not in removed
    )
    is_named = plan.numbers is not None or plan.cells is not None
    if not chosen and is_named and (plan.frames or plan.logs):
        raise UserError("None of the runs that were named is in this session; `evprof show` lists them.")
    return Dropped(
        removed, chosen if plan.logs else frozenset(), chosen if plan.frames and not plan.logs else frozenset()
    )


def _session(source: SourceSession, plan: PrunePlan) -> dict[str, Any]:
    """What the copy says of itself: what the session said, and what was dropped."""
    session = source.session
    known = session.facts.get(PRUNED)
    entry = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "logs": len(source.dropped.logs),
        "frames": len(source.dropped.frames),
        "runs": len(source.dropped.runs),
    }
    facts = {**session.facts, PRUNED: [*(known if isinstance(known, list) else []), entry]}
    told = {
        "created_at": session.created_at,
        "evprof_version": session.evprof_version,
        "environment": session.environment,
    }
    return {
        **{key: value for key, value in told.items() if value},
        **{FACT_PREFIX + key: value for key, value in facts.items()},
    }
