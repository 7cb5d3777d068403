"""How much engine processes differ on this machine, as it was measured last: kept in the user's data folder."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from evprof.core.files.user_folders import data_folder
from evprof.core.run_log import RunLog
from evprof.metrics.estimates.estimates import ProcessSpread
from evprof.metrics.estimates.repeatability import read_repeatability

REPEATABILITY = "repeatability"
"""The session fact's name."""

_MOST_BYTES = 1 << 20


def kept_repeatability(machines: Collection[str]) -> list[dict[str, Any]]:
    """What is known of these machines (names of processors and GPUs); [] where nothing can be read."""
    return [entry for entry in _read() if entry.get("machine") in machines]


def spread_for(run: RunLog, noted: Iterable[Any] = ()) -> ProcessSpread | None:
    """How much processes differ where a run was made: as sessions noted it, or as it is known here by now."""
    here = kept_repeatability([str(run.info.environment.get("device"))])
    return read_repeatability([*noted, here], run)


def spread_among(runs: Iterable[RunLog], facts: Mapping[str, Any] | None = None) -> ProcessSpread | None:
    """The same for the runs of a session with its facts: of the first machine that is known."""
    noted = [facts[REPEATABILITY]] if facts and REPEATABILITY in facts else []
    machines = {str(run.info.environment.get("device")): run for run in runs}
    found = (spread_for(run, noted) for run in machines.values())
    return next((spread for spread in found if spread is not None), None)


def keep_repeatability(entry: dict[str, Any]) -> Path:
    """Keeps a measurement in place of an earlier one of the same machine, device and dtype. Raises OSError."""
    path, own = _path(), _key(entry)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps([*(other for other in _read() if _key(other) != own), entry], indent=1))
    os.replace(part, path)
    return path


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry.get("machine"), entry.get("device"), entry.get("dtype")


def _read() -> list[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if _path().stat().st_size <= _MOST_BYTES:
            found = json.loads(_path().read_text(encoding="utf-8"))
            return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return []


def _path() -> Path:
    return data_folder() / "repeatability.json"
