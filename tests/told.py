"""Settings and sample of a run as files tell them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from evprof.core.run_info import ENGINE_SESSION
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.settings import settings_from_json


def told(settings: dict[str, Any] | None = None, sample: dict[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a RunInfo that a file with these `settings` and this `sample` gives; None: it has no such part."""
    found: dict[str, Any] = {}
    if settings is not None:
        found["settings"], found["given"] = settings_from_json(settings)
    if sample is not None:
        found["sample"] = Sample.from_facts(sample)
    return found


def in_processes(*sides: Iterable[RunLog]) -> None:
    """Gives every run of every side an engine process of its own, so that three a side allow a verdict."""
    for number, side in enumerate(sides):
        for run in side:
            run.info.environment = {**run.info.environment, ENGINE_SESSION: f"{number}-{run.run_id}"}
