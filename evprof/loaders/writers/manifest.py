"""Writes a list of samples that `evprof.loaders.manifests` reads back as the same samples."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from evprof.core.files.whole_file import whole_file
from evprof.core.sample import Sample


def write_manifest(path: Path, samples: Iterable[Sample]) -> None:
    """A CSV with one row per sample; what lies beside or below `path` is named relative to it. Raises OSError.

    Columns that no sample has anything for are left out.
    """
    listed = list(samples)
    folder = path.parent.resolve()
    columns = {name: [cell(sample, folder) for sample in listed] for name, cell in _CELLS.items()}
    kept = [name for name in columns if name in _ALWAYS or any(columns[name])]
    with whole_file(path) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(kept)
        writer.writerows(zip(*(columns[name] for name in kept), strict=True))


def _place(path: str | None, folder: Path) -> str:
    if path is None:
        return ""
    # Not resolved: a link is named, not what it leads to today.
    found = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(path))), os.path.basename(path))
    inside = os.path.join(folder, "")
    return found[len(inside) :].replace(os.sep, "/") if found.startswith(inside) else found


def _texts(texts: Iterable[str]) -> str:
    listed = list(texts)
    return json.dumps(listed, ensure_ascii=False) if listed else ""


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


_CELLS: dict[str, Callable[[Sample, Path], str]] = {
    "name": lambda sample, _: sample.name,
    "events": lambda sample, folder: _place(sample.events_path, folder),
    "video": lambda sample, folder: _place(sample.video_path, folder),
    "prompt": lambda sample, _: sample.prompt,
    "reference": lambda sample, _: sample.reference or "",
    "answers": lambda sample, _: _texts(sample.expected.also if sample.expected else ()),
    "choices": lambda sample, _: _texts(sample.expected.choices if sample.expected else ()),
    "right_choice": lambda sample, _: sample.expected.letter if sample.expected else "",
    "task": lambda sample, _: sample.task,
    "start_us": lambda sample, _: _number(sample.start_us),
    "duration_us": lambda sample, _: _number(sample.duration_us),
    "video_offset_us": lambda sample, _: _number(sample.video_offset_us or None),
    "video_times": lambda sample, folder: _place(sample.video_times_path, folder),
    "rectify": lambda sample, folder: _place(sample.rectify_path, folder),
}
_ALWAYS = frozenset({"name", "events", "video", "prompt"})
