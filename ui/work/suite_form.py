"""The suite form as it opens: with the open samples and models in it, and how long its runs take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from time import strftime

from evprof.core.records import DRAFT, TARGET
from evprof.core.run_info import FINISHED
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.units import count_text
from evprof.core.vocabulary.generation import ModelChoice
from evprof.loaders.writers.frames import write_manifest
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from evprof.run.works.work_form import WorkForm
from evprof.session.autosave import autosave_folder

BUNDLED = {DRAFT: BUNDLED_DRAFT, TARGET: BUNDLED_TARGET}
_MINUTE_S = 90.0
"""From here on a time is told in minutes."""


def suite_form(
    form: WorkForm,
    suites: Sequence[tuple[str, str]],
    samples: Sequence[Sample],
    models: Mapping[str, ModelChoice],
) -> tuple[WorkForm, dict[str, str]]:
    """The form with suites and samples to choose from, and what it holds at first. The first of `samples` is open."""
    lists = [(listed(samples[:1]), f"the open sample: {samples[0].whole_name}")] if samples else []
    if len(samples) > 1:
        lists.append((listed(samples), f"all {count_text(len(samples), 'listed sample')}"))
    choices = {
        "suite": tuple((name, f"{name}: {title}") for name, title in suites),
        "data": (*(entry for entry in lists if entry[0]), ("", "the bundled samples")),
    }
    fields = tuple(replace(field, choices=choices.get(field.name, field.choices)) for field in form.fields)
    given = {role: "" if choice.name == BUNDLED[role] else choice.name for role, choice in models.items()}
    folder = Path.home() / "evprof" / strftime("suite-%Y%m%d-%H%M%S")
    return replace(form, fields=fields), {**given, "suite": "stages", "output": str(folder)}


def listed(samples: Sequence[Sample]) -> str:
    """The path of a list of these samples in the user's data folder; "" where it cannot be written."""
    name = hashlib.sha256(repr(samples).encode()).hexdigest()[:16]
    path = autosave_folder().with_name("lists") / f"{name}.csv"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(path, samples)
        return str(path)
    return ""


def time_sentence(counts: Mapping[str, int], values: Mapping[str, str], runs: Iterable[RunLog]) -> str:
    """About how long as many runs of each role take, by the finished runs of these models; "" without any count."""
    times: dict[str, list[float]] = {role: [] for role in counts}
    for run in runs:
        info, model = run.info, run.info.models.get(run.info.role)
        wanted = Path(values.get(info.role) or BUNDLED.get(info.role, "")).name
        is_alike = model is not None and model.name == wanted and info.status == FINISHED and not info.profiled
        if is_alike and info.role in times and info.start_ns is not None and info.end_ns is not None:
            times[info.role].append((info.end_ns - info.start_ns) / 1e9)
    if not counts:
        return ""
    if not all(times.values()):
        return "The time is not known: no run of these models in this session."
    seconds = sum(count * fmean(times[role]) for role, count in counts.items())
    told = f"{seconds / 60:.0f} minutes" if seconds >= _MINUTE_S else f"{max(1, round(seconds))} s"
    return f"About {told}, by {count_text(sum(map(len, times.values())), 'run')} of this session, without loading."
