"""What has to be converted for a list of samples, each recording once however many samples share it, and what becomes
of the samples when it is. Nothing is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.events.frames import is_frame_set
from evprof.loaders.writers.frames import TIMES
from evprof.run.conversion.names import FolderNames
from evprof.run.conversion.recipe import FRAMES, MP4, Recipe
from evprof.run.conversion.task import EVENTS, VIDEO, Task, Written

OUTPUTS = {EVENTS: "event-frames", VIDEO: "video-frames"}
"""Folders of pictures, by what they were made of."""


@dataclass(frozen=True)
class Row:
    """A sample, the outputs its halves become (task keys of the plan), and why it cannot be converted, if so."""

    sample: Sample
    outputs: tuple[str, ...] = ()
    problem: str | None = None


@dataclass
class Plan:
    """All rows, and the tasks by output (relative to `folder`), in the order of the rows that first need them."""

    folder: Path
    rows: list[Row] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)


def plan_rows(samples: Sequence[Sample], folder: Path, recipe: Recipe, only: str | None) -> Plan:
    """`only` ("events" or "video") leaves the other half of every sample as it is."""
    plan = Plan(folder)
    names = FolderNames()
    known: dict[str, str] = {}
    for sample in samples:
        name = names.next(sample.name)
        try:
            sources = _sources(sample, recipe, only)
        except UserError as error:
            plan.rows.append(Row(sample, problem=error.sentence))
            continue
        outputs = []
        for source in sources:
            output = f"{name}/{_file_name(source, recipe)}"
            task = Task(sample, source, folder / output, recipe)
            # Many questions may be asked about one recording.
            output = known.setdefault(json.dumps(task.asks(), sort_keys=True), output)
            plan.tasks.setdefault(output, task)
            outputs.append(output)
        plan.rows.append(Row(sample, tuple(outputs)))
    return plan


def _sources(sample: Sample, recipe: Recipe, only: str | None) -> list[str]:
    """Which halves of a sample are read. Raises UserError when it has none that could be."""
    has_events = sample.events_path is not None and not _is_pictures(sample.events_path)
    wanted = [VIDEO if only == VIDEO else EVENTS] if recipe.makes_events else [EVENTS, VIDEO]
    if recipe.to == MP4:
        wanted = [EVENTS if only == EVENTS else VIDEO]
    elif recipe.to == FRAMES and only is not None:
        wanted = [only]
    there = {EVENTS: has_events, VIDEO: sample.video_path is not None}
    found = [source for source in wanted if there[source]]
    if not found:
        raise UserError(_nothing_to_read(sample, wanted, recipe))
    if sample.is_clip and recipe.to == FRAMES and found == [EVENTS] and sample.video_path is not None:
        raise UserError("event frames carry no times to cut the video by; convert both halves.")
    return found


def _nothing_to_read(sample: Sample, wanted: list[str], recipe: Recipe) -> str:
    if wanted == [VIDEO]:
        return "has no video."
    if sample.events_path is not None and recipe.makes_events:
        return "its events are pictures already, of which no recording can be made."
    if recipe.makes_events and sample.video_path is not None:
        return "has no event recording; --only video simulates one from its video."
    return "has no event recording." if wanted == [EVENTS] else "has nothing that pictures could be made of."


def _is_pictures(path: str) -> bool:
    return Path(path).is_dir() or is_frame_set(path)


def _file_name(source: str, recipe: Recipe) -> str:
    if recipe.to == FRAMES:
        return OUTPUTS[source]
    return f"{'events' if recipe.makes_events or source == EVENTS else 'video'}{recipe.suffix}"


def converted(row: Row, plan: Plan, written: Mapping[str, Written]) -> Sample:
    """The sample with what its halves became, on a clock of its own: zero is the earliest event that is left.

    `written` has every output of the row.
    """
    sample = row.sample
    results = {plan.tasks[output].source: output for output in row.outputs}
    begins = {source: written[output].starts_us for source, output in results.items()}
    offset = sample.video_offset_us
    makes_events = plan.tasks[row.outputs[0]].recipe.makes_events
    is_rendered = plan.tasks[row.outputs[0]].recipe.to == MP4 and EVENTS in results
    if makes_events and VIDEO in results:
        shift, video_us = offset + begins[VIDEO], 0
    elif EVENTS in results and not is_rendered:
        shift, video_us = begins[EVENTS], begins.get(VIDEO, 0)
    elif is_rendered:
        shift, video_us, offset = 0, begins[EVENTS], 0
    else:
        video_us = begins.get(VIDEO, 0)
        shift = 0 if sample.events_path is not None else offset + video_us
    changed: dict[str, object] = {"video_offset_us": offset + video_us - shift if sample.video_path else 0}
    changed |= _halves(row, plan, results, makes_events=makes_events, is_rendered=is_rendered)
    result = replace(sample, **changed)  # type: ignore[arg-type]  # names and types are those of the fields
    return _on_clock(result, sample, results, shift, makes_events=makes_events, is_rendered=is_rendered)


def _halves(
    row: Row, plan: Plan, results: Mapping[str, str], *, makes_events: bool, is_rendered: bool
) -> dict[str, object]:
    """Paths of what was converted, in place of what it was made of."""
    paths = {source: str(plan.folder / output) for source, output in results.items()}
    if makes_events:
        return {"events_path": next(iter(paths.values())), "rectify_path": None}
    if is_rendered:
        return {"video_path": paths[EVENTS], "video_times_path": None}
    changed: dict[str, object] = {}
    if EVENTS in paths:
        changed |= {"events_path": paths[EVENTS], "rectify_path": None}
    if VIDEO in paths:
        is_folder = plan.tasks[results[VIDEO]].recipe.to == FRAMES
        times = str(plan.folder / results[VIDEO] / TIMES) if is_folder else None
        changed |= {"video_path": paths[VIDEO], "video_times_path": times}
    return changed


def _on_clock(
    result: Sample,
    before: Sample,
    results: Mapping[str, str],
    shift_us: int,
    *,
    makes_events: bool,
    is_rendered: bool,
) -> Sample:
    """Without a clip where all halves were cut; else with the clip that cuts what was not, on the new clock."""
    if not before.is_clip or is_rendered:
        return result
    is_events_cut = EVENTS in results or makes_events
    is_video_cut = VIDEO in results and not makes_events
    if (is_events_cut or result.events_path is None) and (is_video_cut or result.video_path is None):
        return replace(result, start_us=None, duration_us=None)
    if not is_events_cut:
        return result
    stop_us = None if before.duration_us is None else (before.start_us or 0) + before.duration_us - shift_us
    return replace(result, start_us=0, duration_us=None if stop_us is None else max(1, stop_us))
