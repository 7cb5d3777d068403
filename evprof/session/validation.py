"""Whether plain values from a file are a RunInfo: each field of the type its class declares, at every depth."""

from __future__ import annotations

from typing import Any

from evprof.core.plain import UnfitError, fits, hints_of
from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import CANCELLED, FAILED, FINISHED, RUNNING, RunInfo

_LENIENT = ("settings", "sample")
"""Fields that are read as far as they fit."""


def run_info_from(values: object) -> RunInfo | None:
    """The RunInfo of plain values, or None when they are not one."""
    try:
        info = RunInfo.from_json(values) if isinstance(values, dict) else None
    except UnfitError:
        return None
    is_known = info and info.role in (DRAFT, TARGET) and info.status in (RUNNING, FINISHED, CANCELLED, FAILED)
    return info if is_known else None


def fitting(info: RunInfo) -> tuple[dict[str, Any], list[str]]:
    """The plain values of `info` as a reader accepts them, and the names of fields that had to be left out.

    A fact of a wrong type is a defect of whoever reported it; it costs that fact, not the session.
    """
    values, hints = info.to_json(), hints_of(RunInfo)
    wrong = [name for name, value in values.items() if name not in _LENIENT and not fits(value, hints[name])]
    return {name: value for name, value in values.items() if name not in wrong}, wrong


def readable(info: RunInfo) -> RunInfo | None:
    """The run as a reader will know it; None where it could not."""
    found = run_info_from(fitting(info)[0])
    if found is not None:
        found.sample = info.sample
    return found
