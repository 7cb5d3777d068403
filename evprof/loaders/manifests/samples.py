"""Samples from the rows of a list, in evprof's own columns or as entries of EventGPT's instruction JSON.

The instruction JSON lies beside the folders of its dataset:

    dataset/  any.json  event_npy/  event_image/  event_image_1f/  mp4/  video/

An entry names its files without their folder: `event_data` "drive/000001.npy" is event_npy/drive/000001.npy, and
`video_data` "drive/000001" is mp4/drive/000001.mp4 or the frames in video/drive/000001/. Rendered event frames of all
clips of a drive share a folder (event_image/drive/000001_0.png … _4.png).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from evprof.core.errors import UserError
from evprof.core.sample import Sample, clip_name
from evprof.core.vocabulary.scoring import ExpectedAnswer, with_choices
from evprof.loaders.manifests.cells import (
    LONGEST_NAME,
    UNITS_US,
    clean,
    expected_of,
    path_of,
    shown,
    text_of,
    time_us,
    type_name,
)
from evprof.loaders.manifests.files import ListedFiles
from evprof.loaders.manifests.rows import ManifestProblems
from evprof.loaders.pictures.frame_folder import FRAME_NUMBER
from evprof.loaders.sequences.sequence import Sequence, find_sequence, open_sequence

TIMES = ("start", "duration", "video_offset")

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "events": ("events", "event", "events_path", "event_path", "events_file", "event_file", "npy"),
    "video": ("video", "video_path", "video_file", "mp4"),
    "image": ("image", "image_path", "image_file"),
    "sequence": ("sequence", "sequence_path", "sequence_folder"),
    "prompt": ("prompt", "question", "query", "instruction"),
    "turns": ("turns",),
    "reference": ("reference", "answer", "reference_answer", "ground_truth", "expected"),
    "answers": ("answers", "references", "accepted_answers"),
    "choices": ("choices", "options", "candidates"),
    "right_choice": ("right_choice", "correct_choice", "correct_option", "correct_answer", "answer_index"),
    "task": ("task", "task_type", "question_type", "topic", "category", "event_data_type", "data_type"),
    "name": ("name", "id", "sample", "sample_name", "sample_id", "question_id"),
    "video_times": ("video_times", "video_times_path", "timestamps"),
    "rectify": ("rectify", "rectify_path", "rectify_map"),
    **{name: tuple(f"{name}{unit}" for unit in UNITS_US) for name in TIMES},
}
"""Fields of a row and the names of their columns, the preferred one first. Case makes no difference."""

HALVES = frozenset({"events", "video", "image", "sequence"})
"""Columns of which a list has at least one."""

MARKS = frozenset({"event_data", "video_data", "mp4_data", "conversations"})
"""Keys of EventGPT's entries."""

_UNUSED = frozenset({"event_image", "event_image_1f", "video_type", "split", "benchmark_datetime"})
"""Keys of these entries that are not read."""

MAX_TURNS = 1000
LEFT_OUT = "rows that are left out"
_COLUMNS_TOLD = 1000
_PLACEHOLDER = re.compile(r"(?:\s|<ev_start>)*<(?:event|image|video)>(?:\s|<ev_end>)*", re.IGNORECASE)

Question = tuple[str | None, str | None]
"""A question and its answer."""


@lru_cache(maxsize=256)
def column_name(key: str) -> str:
    return key.strip().casefold()


def known_columns(keys: Mapping[str, object]) -> set[str]:
    """The fields that a row has columns of."""
    names = {column_name(key) for key in keys}
    return {name for name, columns in COLUMNS.items() if names.intersection(columns)}


def without_placeholders(text: str) -> str:
    """A question without `<event>`, `<image>` and `<video>` and the white space around them."""
    return _PLACEHOLDER.sub(lambda match: "\n" if "\n" in match[0] else " ", text).strip()


@dataclass
class _Row:
    """A row by fields. `columns` are the names of their columns in the list."""

    cells: dict[str, object]
    columns: dict[str, str]
    entry: dict[str, object]

    def path(self, name: str) -> str:
        return path_of(self.entry.get(name) if name in MARKS else self.cells.get(name), name)


@dataclass
class SampleReading:
    """Converts rows of a list into samples. Rows with an invalid cell or without a file are skipped and reported."""

    root: str
    asks_all: bool
    problems: ManifestProblems
    has_columns: bool = False
    is_instruction: bool = False
    without_prompt: int = 0
    later_questions: int = 0
    has_prompts: bool = False
    _unknown: set[str] = field(default_factory=set)
    _next_number: dict[str, int] = field(default_factory=dict)
    _sequences: dict[str, Sequence | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._files = ListedFiles(self.root)

    def samples(self, number: int, values: object) -> Iterator[Sample]:
        """The samples of row `number`, one for each question."""
        try:
            if not isinstance(values, dict):
                raise ValueError(f"it is {type_name(values)} instead of names and values")
            row = self._row(values)
            made = self._made(number, row)
        except ValueError as error:
            self._skip(number, f"because {error}.")
        except UserError as error:
            self._skip(number, f"because: {error.sentence}")
        else:
            yield from made

    def _skip(self, number: int, why: str) -> None:
        self.problems.add(LEFT_OUT, f"Row {number} is skipped, {why}")

    def _row(self, values: dict[str, object]) -> _Row:
        entry = {column_name(key): value for key, value in values.items()}
        columns = {
            name: column
            for name, listed in COLUMNS.items()
            if (column := next((each for each in listed if each in entry), None)) is not None
        }
        is_entry = not MARKS.isdisjoint(entry)
        self.is_instruction = self.is_instruction or is_entry
        self.has_columns = self.has_columns or is_entry or not HALVES.isdisjoint(columns)
        unused = entry.keys() - set(columns.values()) - ((MARKS | _UNUSED) if is_entry else set())
        for key in sorted(unused - self._unknown)[: _COLUMNS_TOLD - len(self._unknown)]:
            self._unknown.add(key)
            self.problems.add("columns that are not known", f"Column '{shown(key)}' is not known and is left out.")
        return _Row({name: entry[column] for name, column in columns.items()}, columns, entry)

    def _made(self, number: int, row: _Row) -> list[Sample]:
        is_entry = not MARKS.isdisjoint(row.entry)
        start_us, duration_us, offset_us = (
            time_us(row.columns[name], row.cells[name]) if name in row.cells else None for name in TIMES
        )
        asked = _turns_of(row) if is_entry else _questions_of(row)
        sample = self._entry(number, row) if is_entry else self._listed(number, row)
        offset_us = sample.video_offset_us if offset_us is None else offset_us
        sample = replace(sample, start_us=start_us, duration_us=duration_us, video_offset_us=offset_us)
        if sample.events_path is None and sample.video_path is None:
            raise ValueError("it names neither events nor a video")
        sample.validate()
        question, answer = asked[0]
        reference, expected = expected_of(row.cells | ({"reference": answer} if answer else {}))
        self.later_questions += len(asked) - 1
        self.has_prompts = self.has_prompts or is_entry or question is not None
        self.without_prompt += question is None
        name = self._name(row, sample)
        prompt = with_choices(question or Sample().prompt, expected.choices if expected else ())
        samples = [replace(sample, prompt=prompt, name=name, reference=reference, expected=expected)]
        # The row's answer is that of its first question.
        task = ExpectedAnswer(task=expected.task) if expected is not None and expected.task else None
        for place, (question, answer) in enumerate(asked[1:] if self.asks_all else (), start=2):
            later = self._unique(f"{name}#{place}")
            prompt = question or Sample().prompt
            samples.append(replace(sample, prompt=prompt, name=later, reference=answer, expected=task))
        return samples

    def _name(self, row: _Row, sample: Sample) -> str:
        """The row's name, else the path of its file; of several clips also their start."""
        given = row.cells.get("name")
        name = (
            "" if given is None or isinstance(given, dict | list | bool) else clean(str(given)[:LONGEST_TEXT_OF_NAME])
        )
        if not name:
            paths = [row.path(key) for key in ("sequence", "events", "video", "image")]
            name = path_name(next(filter(None, [*paths, *_stems(row, "event_data", "video_data", "mp4_data")]), ""))
        name = " ".join(shown(name, LONGEST_NAME).split()) or "sample"
        if sample.is_clip and (given is None or name in self._next_number):
            name = clip_name(name, sample.start_us or 0)
        return self._unique(name)

    def _unique(self, name: str) -> str:
        """The name, with the first free number after it if another row has it."""
        if name not in self._next_number:
            self._next_number[name] = 2
            return name
        while (numbered := f"{name} ({self._next_number[name]})") in self._next_number:
            self._next_number[name] += 1
        self._next_number[numbered] = 2
        return numbered

    def _halves(self, number: int, halves: Mapping[str, tuple[str, str | None]]) -> Sample:
        """The sample of its halves: what the row names, and the path if it exists. A missing half is reported."""
        missing = {
            half: f"its {half} '{shown(name)}' {'are' if half == 'events' else 'is'} not there"
            for half, (name, path) in halves.items()
            if name and path is None
        }
        if missing and not any(path for _, path in halves.values()):
            raise ValueError(" and ".join(missing.values()))
        for half, clause in missing.items():
            other, kind = ("video", "events") if half == "events" else ("events", "a video")
            self.problems.add(f"rows without {kind}", f"Row {number}: {clause}; the sample has only its {other}.")
        return Sample(halves["events"][1], halves["video"][1])

    def _listed(self, number: int, row: _Row) -> Sample:
        """A row of evprof's own columns."""
        sequence = self._sequence(row)
        events, video, image = (row.path(name) for name in ("events", "video", "image"))
        events_path = self._files.events(events) if events else None
        video_path = self._files.video(video) if video else None
        if not video and image:
            video, video_path = image, self._files.file(image, f"images/{image}")
        if sequence is not None:
            if events_path is None or events_path == sequence.folder:
                events_path = sequence.events_path
            video_path = video_path if video else sequence.video_path
        sample = self._halves(number, {"events": (events, events_path), "video": (video, video_path)})
        if sequence is not None and (events_path, video_path) == (sequence.events_path, sequence.video_path):
            sample = sequence.sample()
        times, rectify = (self._beside(row, name) for name in ("video_times", "rectify"))
        return replace(
            sample,
            video_times_path=times or sample.video_times_path,
            rectify_path=rectify or sample.rectify_path,
        )

    def _beside(self, row: _Row, name: str) -> str | None:
        path = row.path(name)
        if path and self._files.file(path) is None:
            raise ValueError(f"its {name} '{shown(path)}' is not there")
        return self._files.file(path) if path else None

    def _sequence(self, row: _Row) -> Sequence | None:
        """The folder of a recording and its video, in its own column or as `events`."""
        asked = row.path("sequence")
        folder = self._files.folder(asked or row.path("events")) if asked or row.path("events") else None
        if folder is None:
            if asked:
                raise ValueError(f"its sequence '{shown(asked)}' is not there, or no folder of a recording")
            return None
        if folder not in self._sequences:
            self._sequences[folder] = open_sequence(folder) if asked else find_sequence(folder)
        sequence = self._sequences[folder]
        return None if sequence is None else replace(sequence, folder=folder)

    def _entry(self, number: int, row: _Row) -> Sample:
        """An entry of an instruction JSON. A half that it does not name is taken from the same clip if it exists."""
        named = row.path("event_data")
        events, videos = _stems(row, "event_data"), _stems(row, "video_data", "mp4_data")
        event_path = video_path = None
        for stem in events or videos[:1]:
            folder, _, clip = stem.rpartition("/")
            frames = [
                name
                for kind in ("event_image", "event_image_1f")
                for name in (os.path.join(kind, folder, f"{clip}_{FRAME_NUMBER}.png"), f"{kind}/{stem}")
            ]
            names = [
                f"event_npy/{stem}.npy",
                f"event_npy/{stem}.npz",
                *((f"event_npy/{named}", named) if named else ()),
            ]
            event_path = self._files.file(*names) or self._files.frames(*frames)
        stems = videos or events
        if stems:
            listed = [row.path(key) for key in ("mp4_data", "video_data") if row.path(key)]
            names = [f"mp4/{stem}.mp4" for stem in stems]
            names += [name for stem in stems for name in (f"video/{stem}", f"video/{stem}.mp4")]
            names += [name for path in listed for name in (f"mp4/{path}", f"video/{path}", path)]
            video_path = self._files.video(*names)
        return self._halves(
            number,
            {
                "events": (f"event_npy/{named}" if named else "", event_path),
                "video": (f"mp4/{videos[0]}.mp4" if videos else "", video_path),
            },
        )


LONGEST_TEXT_OF_NAME = 10 * LONGEST_NAME


def path_name(path: str) -> str:
    """The name of a sample after its file: the path without its ending, of a long one the last three parts."""
    stem = os.path.splitext(clean(path).replace("\\", "/"))[0]
    parts = [part for part in stem.split("/") if part not in ("", ".", "..")]
    return "/".join(parts[-3:] if path.startswith("/") or len(parts) > 4 else parts)


def _stems(row: _Row, *keys: str) -> list[str]:
    """Names of the clip in an entry, without their endings: "drive/000001"."""
    names = (row.path(key).rstrip("/") for key in keys)
    return [re.sub(r"\.(npy|npz|mp4)$", "", name, flags=re.IGNORECASE) for name in names if name]


def _questions_of(row: _Row) -> list[Question]:
    turns = row.cells.get("turns")
    if turns is None or turns == "":
        return [(text_of(row.cells.get("prompt"), "prompt"), None)]
    return [(text_of(turn, "question"), None) for turn in _listed_turns(turns, "turns")] or [(None, None)]


def _listed_turns(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"its {what} should be a list, not {type_name(value)}")
    if len(value) > MAX_TURNS:
        raise ValueError(f"it has {len(value):,} turns, more than {MAX_TURNS:,}")
    return value


def _turns_of(row: _Row) -> list[Question]:
    """The questions of a conversation with the answers that follow them; `query` if no turn asks anything."""
    asked: list[Question] = []
    is_open = False
    for turn in _listed_turns(row.entry.get("conversations") or [], "conversations"):
        if not isinstance(turn, dict):
            raise ValueError(f"a turn of its conversations should be a table, not {type_name(turn)}")
        speaker, value = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
        if speaker in ("human", "user"):
            text = text_of(value, "question")
            asked.append((without_placeholders(text) or None if text else None, None))
            is_open = True
        elif speaker in ("gpt", "assistant"):
            if is_open:
                asked[-1] = (asked[-1][0], text_of(value, "answer"))
            is_open = False
    if any(question for question, _ in asked):
        return asked[:1] + [pair for pair in asked[1:] if pair[0]]
    query = text_of(row.cells.get("prompt"), "query")
    answer = next((answer for _, answer in asked if answer), None)
    return [(without_placeholders(query) if query else None, answer)]
