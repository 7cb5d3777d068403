"""The conversions of a list of samples, each recording once, and what becomes of the samples. Nothing is opened."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import EVENTS, VIDEO
from evprof.loaders.pictures.frame_folder import is_frame_set
from evprof.loaders.writers.frames import TIMES
from evprof.run.conversion.task import FRAMES, MP4, ConversionRecipe, Task, Written

LONGEST_BYTES = 96
_TAKEN = ("manifest.csv", "conversion.jsonl", "conversion.lock")


class FolderNames:
    def __init__(self) -> None:
        self._used = set(_TAKEN)

    def next(self, name: str) -> str:
        base = safe_name(name)
        unique, number = base, 1
        while (compared := unicodedata.normalize("NFKC", unique).casefold()) in self._used:
            number += 1
            unique = f"{base}-{number}"
        self._used.add(compared)
        return unique


def safe_name(name: str) -> str:
    """`drive/000001` -> `drive_000001`: letters, digits, `.`, `-` and `_`. Long names end in a hash."""
    text = unicodedata.normalize("NFC", name)
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in text).strip("._ ")
    content = kept.encode("utf-8", "replace")
    if len(content) > LONGEST_BYTES:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        kept = content[: LONGEST_BYTES - 9].decode("utf-8", "ignore").rstrip("._") + f"-{digest}"
    return kept or "sample"


OUTPUTS = {EVENTS: "event-frames", VIDEO: "video-frames"}
"""Folders of pictures by their source."""


@dataclass(frozen=True)
class ConversionRow:
    """A sample, the outputs of its halves (task keys of the plan), and why it cannot be converted, if so."""

    sample: Sample
    outputs: tuple[str, ...] = ()
    problem: str | None = None


@dataclass
class ConversionPlan:
    """All rows, and the tasks by output (relative to `folder`), in the order of the rows that first need them."""

    folder: Path
    rows: list[ConversionRow] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)


def plan_rows(samples: Sequence[Sample], folder: Path, recipe: ConversionRecipe, only: str | None) -> ConversionPlan:
    """`only` ("events" or "video") leaves the other half of every sample as it is."""
    plan = ConversionPlan(folder)
    names = FolderNames()
    known: dict[str, str] = {}
    for sample in samples:
        name = names.next(sample.name)
        try:
            sources = _sources(sample, recipe, only)
        except UserError as error:
            plan.rows.append(ConversionRow(sample, problem=error.sentence))
            continue
        outputs = []
        for source in sources:
            output = f"{name}/{_file_name(source, recipe)}"
            task = Task(sample, source, folder / output, recipe)
            # Rows share a recording for many questions.
            output = known.setdefault(json.dumps(task.asks(), sort_keys=True), output)
            plan.tasks.setdefault(output, task)
            outputs.append(output)
        plan.rows.append(ConversionRow(sample, tuple(outputs)))
    return plan


def _sources(sample: Sample, recipe: ConversionRecipe, only: str | None) -> list[str]:
    if recipe.makes_events:
        wanted = [only or EVENTS]
    elif recipe.to == MP4:
        wanted = [only or VIDEO]
    else:
        wanted = [EVENTS, VIDEO] if only is None else [only]
    is_drawn = sample.events_path is not None and (
        Path(sample.events_path).is_dir() or is_frame_set(sample.events_path)
    )
    there = {EVENTS: sample.events_path is not None and not is_drawn, VIDEO: sample.video_path is not None}
    sources = [source for source in wanted if there[source]]
    if not sources:
        if wanted == [VIDEO]:
            raise UserError("has no video.")
        if recipe.makes_events and is_drawn:
            raise UserError("its events are pictures already, of which no recording can be made.")
        if recipe.makes_events and sample.video_path is not None:
            raise UserError("has no event recording; --only video simulates one from its video.")
        raise UserError("has no event recording." if wanted == [EVENTS] else "has nothing that pictures are made of.")
    if sample.is_clip and recipe.to == FRAMES and sources == [EVENTS] and sample.video_path is not None:
        raise UserError("event frames carry no times to cut the video by; convert both halves.")
    return sources


def _file_name(source: str, recipe: ConversionRecipe) -> str:
    if recipe.to == FRAMES:
        return OUTPUTS[source]
    return f"{'events' if recipe.makes_events or source == EVENTS else 'video'}{recipe.suffix}"


def converted(row: ConversionRow, plan: ConversionPlan, written: Mapping[str, Written]) -> Sample:
    """The sample with its new halves, on a clock whose zero is the earliest event that is left.

    `written` has every output of the row.
    """
    sample, made = row.sample, set[str]()
    # The start of each new half on the sample's old clock.
    begins_us = {EVENTS: 0, VIDEO: sample.video_offset_us}
    changed: dict[str, Any] = {}
    for output in row.outputs:
        task, path = plan.tasks[output], plan.folder / output
        is_frames = task.recipe.to == FRAMES
        half = EVENTS if task.recipe.makes_events or (task.source == EVENTS and is_frames) else VIDEO
        made.add(half)
        begins_us[half] = written[output].starts_us + (sample.video_offset_us if task.source == VIDEO else 0)
        if half == EVENTS:
            changed |= {"events_path": str(path), "rectify_path": None}
        else:
            changed |= {"video_path": str(path), "video_times_path": str(path / TIMES) if is_frames else None}
    result = replace(sample, **changed)
    zero_us = begins_us[EVENTS if result.events_path is not None else VIDEO]
    result = replace(result, video_offset_us=begins_us[VIDEO] - zero_us if result.video_path is not None else 0)
    if not sample.is_clip or (result.events_path is not None and EVENTS not in made):
        return result
    if result.video_path is None or VIDEO in made:
        return replace(result, start_us=None, duration_us=None)
    # Only the events were cut: the rest of the clip cuts the video, on the new clock.
    left_us = None
    if sample.duration_us is not None:
        left_us = max(1, (sample.start_us or 0) + sample.duration_us - zero_us)
    return replace(result, start_us=0, duration_us=left_us)
