"""What a suite keeps in its session about itself, and what a session tells of a suite that was begun before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
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
    repeats = (1 + key.repeat // spec.processes for key in measured if key.cell != REFERENCE)
    return {
        "name": spec.name,
        "title": spec.title,
        "command": command,
        "manifest": manifest,
        "repeat": max([spec.repeat, *repeats]),
        "sessions": spec.processes,
        "warmup": spec.warmup,
        "cooldown": f"{spec.cooldown_s:g} s" if spec.cooldown_s else None,
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
        "sessions": spec.processes,
        "warmup": spec.warmup,
    }


def check_same(fact: Any, asked: Mapping[str, Any]) -> None:
    """Raises UserError, saying what differs, unless the session's suite can go on as `asked` (a `fingerprint`)."""
    before = _table(fact, "fingerprint")
    if not before:
        raise UserError("--resume: the session there is not of a suite, or of an older version; take another folder.")
    differences = [
        f"{name} {before.get(key)} then and {asked[key]} now"
        for name, key in (("processes", "sessions"), ("warmup", "warmup"))
        if before.get(key) != asked[key]
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


class RowOutcomes:
    """The last run of every row that ended so far."""

    def __init__(self, infos: Iterable[RunInfo] = ()) -> None:
        self._last: dict[RowKey, tuple[str, str, int]] = {}
        """Status, error and group of each."""
        self._groups: dict[tuple[str, str, str, int], int] = {}
        self.note(info for info in infos if info.cell and not info.warmup and not info.profiled)

    def note(self, infos: Iterable[RunInfo]) -> None:
        for info in infos:
            if isinstance(info.row, RowKey):
                self._last[info.row] = info.status, info.error or "", info.group_id
                self._groups[info.row[:4]] = info.group_id

    def is_done(self, row: SuiteRow, *, retry_failed: bool = False) -> bool:
        """Whether all runs of the row ended by themselves, and together: finished, or failed for an own reason."""
        runs = [self._last[key] for key in row.keys if key in self._last]
        has_failed = any(status == FAILED for status, _, _ in runs)
        return (
            len(runs) == len(row.keys)
            and all(status in (FINISHED, FAILED) for status, _, _ in runs)
            and not any(status == FAILED and error.startswith(CUT_OFF) for status, error, _ in runs)
            and len({group for _, _, group in runs}) == 1
            and not (retry_failed and has_failed)
        )

    @property
    def keys(self) -> Collection[RowKey]:
        return self._last

    def group_of(self, row: SuiteRow) -> int | None:
        return self._groups.get(row.group) if row.is_half else None


FRAMES_FOLDER = "event-frames"
"""Below a suite's folder: drawn for cells whose video model is to see the events."""


def check_folder(folder: Path, *, resumes: bool) -> Path:
    """The session's path below `folder`; nothing is made.

    Raises UserError for a folder that holds something and is not to be resumed, and for one with nothing to resume.
    """
    path = folder / SUITE_SESSION
    is_begun = path.is_file()
    # A program that was killed before its session was there leaves these.
    left = {SUITE_SESSION + ENDING, FRAMES_FOLDER}
    if resumes and not is_begun:
        raise UserError(f"--resume: there is no suite in '{folder}' to go on with; leave --resume out to begin one.")
    if folder.is_file():
        raise UserError(f"-o: '{folder}' is a file; name a folder.")
    if not resumes and folder.is_dir() and {entry.name for entry in folder.iterdir()} - left:
        way = "add --resume to go on with it, or name" if is_begun else "name"
        raise UserError(f"-o: '{folder}' is there already and not empty; {way} a new folder.")
    return path


def made_folder(folder: Path, *, resumes: bool) -> Path:
    """The session's path below `folder`, which is made. Raises UserError as `check_folder` does, and where it cannot
    be made."""
    path = check_folder(folder, resumes=resumes)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"-o: '{folder}' cannot be made ({error.strerror or error}); choose another place.") from None
    return path
