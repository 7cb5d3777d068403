"""What a suite keeps in its session about itself, and what a session tells of a suite that was begun before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.errors import GPU_LOST, UserError
from evprof.core.run_info import FAILED, FINISHED, REFERENCE, RowKey, RunInfo
from evprof.core.sample import Sample
from evprof.run.suites.plan import SuitePlan, SuiteRow
from evprof.run.suites.spec import SuiteSpec
from evprof.run.works.work_form import SUITE_SESSION
from evprof.session.presence import ENDING
from evprof.session.store import WRITER_GONE

SUITE = "suite"


def suite_fact(
    plan: SuitePlan,
    asked: Mapping[str, Any],
    *,
    before: Mapping[str, Any] | None = None,
    measured: Collection[RowKey] = (),
    command: str = "",
    manifest: str | None = None,
    problems: Iterable[str] = (),
) -> dict[str, Any]:
    """The "suite" fact of a session: what was asked, in plain values.

    `asked` is the plan's `fingerprint`. `before` is the fact of the suite that is continued, `measured` are the keys of
    its runs: they stay and count as planned, although the plan may have fewer samples or repeats.
    """
    spec = plan.spec
    known = _table(_table(before, "fingerprint"), "samples")
    repeats = (1 + key.repeat // spec.sessions for key in measured if key.cell != REFERENCE)
    return {
        "name": spec.name,
        "title": spec.title,
        "command": command,
        "manifest": manifest,
        "repeat": max([spec.repeat, *repeats]),
        "sessions": spec.sessions,
        "warmup": spec.warmup,
        "cooldown": str(spec.cooldown) if spec.cooldown else None,
        "order": plan.order,
        "prefetch": list(dict.fromkeys(cell.settings.switches.prefetch for cell in spec.cells)),
        "cells": [
            {
                "label": cell.label,
                "mode": cell.mode,
                "draft": cell.draft.name if cell.draft else None,
                "target": cell.target.name if cell.target else None,
                "axes": cell.axes,
            }
            for cell in spec.cells
        ],
        "samples": len({*asked["samples"], *(key.sample for key in measured)}),
        "problems": list(dict.fromkeys([*spec.notes, *plan.problems, *problems])),
        "planned_runs": len({*measured, *(key for row in plan.rows for key in row.keys)}),
        "fingerprint": {**asked, "samples": {**known, **asked["samples"]}},
    }


def fingerprint(spec: SuiteSpec, samples: Iterable[Sample]) -> dict[str, Any]:
    """What a suite may not change when it is continued. Samples and repeats may be added and left out."""
    return {
        "cells": {cell.label: _digest(cell.to_json()) for cell in spec.cells},
        "samples": {sample.name: _digest(sample.to_json()) for sample in samples},
        "sessions": spec.sessions,
        "warmup": spec.warmup,
    }


def check_same(fact: Any, asked: Mapping[str, Any]) -> None:
    """Raises UserError, saying what differs, unless the session's suite can go on as `asked` (a `fingerprint`)."""
    before = _table(fact, "fingerprint")
    if not before:
        raise UserError("--resume: the session there is not of a suite, or of an older version; take another folder.")
    differences = [
        f"{name} {before.get(name)} then and {asked[name]} now"
        for name in ("sessions", "warmup")
        if before.get(name) != asked[name]
    ]
    samples = _table(before, "samples")
    differences += [
        f"sample '{name}' is another one"
        for name, digest in asked["samples"].items()
        if samples.get(name, digest) != digest
    ]
    then, now = _table(before, "cells"), asked["cells"]
    for label in dict.fromkeys((*then, *now)):
        if then.get(label) != now.get(label):
            change = "is gone" if label not in now else "is new" if label not in then else "has other settings"
            differences.append(f"cell '{label}' {change}")
    if differences:
        said = "; ".join(differences[:4]) + ("; …" if len(differences) > 4 else "")
        raise UserError(
            f"--resume: this is not the suite that was begun there ({said}); ask for the same cells and warm-ups, or "
            "take another folder."
        )


def _table(values: Any, key: str) -> dict[str, Any]:
    """The dictionary of that name in `values`, which may be damaged: empty where there is none."""
    found = values.get(key) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


CUT_OFF = (WRITER_GONE[:-1], GPU_LOST)
"""How errors begin that say nothing of what was measured: the row is measured again."""


@dataclass(frozen=True)
class Attempt:
    status: str
    error: str | None
    group_id: int

    @property
    def is_done(self) -> bool:
        """Whether it ended by itself: finished, or failed for a reason of its own."""
        was_cut_off = (self.error or "").startswith(CUT_OFF)
        return self.status == FINISHED or (self.status == FAILED and not was_cut_off)


class RowOutcomes:
    def __init__(self, infos: Iterable[RunInfo] = ()) -> None:
        self._last: dict[RowKey, Attempt] = {}
        self._groups: dict[tuple[str, str, str, int], int] = {}
        self.note(info for info in infos if info.cell and not info.warmup and not info.profiled)

    def note(self, infos: Iterable[RunInfo]) -> None:
        for info in infos:
            if isinstance(info.row, RowKey):
                self._last[info.row] = Attempt(info.status, info.error, info.group_id)
                self._groups[info.row[:4]] = info.group_id

    def is_done(self, row: SuiteRow, *, retry_failed: bool = False) -> bool:
        """Whether the row needs not be measured (again): all its runs ended, and together."""
        attempts = [self._last.get(key) for key in row.keys]
        if any(attempt is None or not attempt.is_done for attempt in attempts):
            return False
        known = [attempt for attempt in attempts if attempt is not None]
        if len({attempt.group_id for attempt in known}) > 1:
            return False
        return not (retry_failed and any(attempt.status == FAILED for attempt in known))

    @property
    def keys(self) -> Collection[RowKey]:
        return self._last

    def group_of(self, row: SuiteRow) -> int | None:
        return self._groups.get(row.group) if row.is_half else None


FRAMES_FOLDER = "event-frames"
"""Below a suite's folder: drawn for cells whose video model is to see the events."""


def check_folder(folder: Path, *, resumes: bool) -> None:
    """Raises UserError for a folder that holds something and is not to be resumed, and for one with nothing to resume.

    Nothing is made.
    """
    is_begun = _is_begun(folder, folder / SUITE_SESSION)
    if resumes:
        if not is_begun:
            raise UserError(
                f"--resume: there is no suite in '{folder}' to go on with; leave --resume out to begin one."
            )
    elif folder.is_file():
        raise UserError(f"-o: '{folder}' is a file; name a folder.")
    elif folder.is_dir() and any(folder.iterdir()):
        way = "add --resume to go on with it, or name" if is_begun else "name"
        raise UserError(f"-o: '{folder}' is there already and not empty; {way} a new folder.")


def made_folder(folder: Path, *, resumes: bool) -> Path:
    """The session's path below `folder`, which is made unless a suite there is continued. Raises UserError as
    `check_folder` does, and where it cannot be made."""
    check_folder(folder, resumes=resumes)
    path = folder / SUITE_SESSION
    if not resumes:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"-o: '{folder}' cannot be made ({reason}); choose another place.") from None
    elif not path.is_file() or not path.stat().st_size:
        for left in _files_of(path):
            left.unlink(missing_ok=True)
    return path


def _is_begun(folder: Path, path: Path) -> bool:
    """Whether a suite was begun there, be it that it was killed before its session had a first byte."""
    if path.is_file() and path.stat().st_size:
        return True
    return folder.is_dir() and {*folder.iterdir()} <= {*_files_of(path), folder / FRAMES_FOLDER}


def _files_of(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-journal", "-wal", "-shm", ENDING)]
