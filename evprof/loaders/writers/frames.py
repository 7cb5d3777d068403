"""Writes pictures as a folder of PNG files with their times, and lists of samples."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_file, whole_folder
from evprof.core.sample import Sample
from evprof.core.texts import guarded
from evprof.loaders.pictures.png import encode_png
from evprof.loaders.pictures.render import Picture

TIMES = "times.txt"
"""One time in µs for each picture: what `--video-times` and a list's column video_times read."""

MOST_FRAMES = 1_000_000


def write_frames(folder: Path, pictures: Iterable[tuple[int, Picture]]) -> int:
    """Writes (time in µs, picture) as `frame_00.png` on, and `times.txt`; returns how many.

    The numbers have as many digits as the last one needs, two at least. A folder that is there is replaced, as a whole
    and only once all is written. Raises OSError, UserError without any picture, and whatever `pictures` raises.
    """
    times: list[int] = []
    with whole_folder(folder) as unfinished:
        for time_us, picture in pictures:
            (unfinished / _name(len(times), 7)).write_bytes(encode_png(picture))
            times.append(time_us)
            if len(times) > MOST_FRAMES:
                raise UserError(f"{folder}: would hold more than {MOST_FRAMES:,} pictures; write a part, or fewer.")
        if not times:
            raise UserError(f"{folder}: there are no pictures to write; choose another part.")
        digits = max(2, len(str(len(times) - 1)))
        for index in range(len(times)):
            (unfinished / _name(index, 7)).rename(unfinished / _name(index, digits))
        (unfinished / TIMES).write_text("".join(f"{time_us}\n" for time_us in times), encoding="ascii")
    return len(times)


def is_ours(folder: Path) -> bool:
    """Whether a folder holds nothing but what `write_frames` leaves, so that it may be replaced. Raises OSError."""
    return all(
        entry.is_file() and (entry.name == TIMES or (entry.name.startswith("frame_") and entry.suffix == ".png"))
        for entry in folder.iterdir()
    )


def _name(index: int, digits: int) -> str:
    return f"frame_{index:0{digits}d}.png"


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
        writer.writerows(map(guarded, cells) for cells in zip(*(columns[name] for name in kept), strict=True))


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
