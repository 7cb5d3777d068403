"""Samples from the rows of a list in evprof's own columns: recordings, texts, and which part is meant."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from evprof.core.errors import UserError
from evprof.core.sample import Sample, clip_name
from evprof.core.vocabulary.scoring import ExpectedAnswer, with_choices
from evprof.loaders.manifests.counterparts import NOTHING, Counterparts, Half, path_problem, type_name
from evprof.loaders.manifests.expected_cells import EXPECTED, TIMES, ExpectedCells, time_columns, time_us
from evprof.loaders.manifests.rows import MAX_TURNS, Choices, ManifestProblems, ManifestRow, shown
from evprof.loaders.sequences.sequence import Sequence, find_sequence, open_sequence

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "events": ("events", "event", "events_path", "event_path", "events_file", "event_file", "npy"),
    "video": ("video", "video_path", "video_file", "mp4"),
    "image": ("image", "image_path", "image_file"),
    "prompt": ("prompt", "question", "query", "instruction"),
    "turns": ("turns",),
    **EXPECTED,
    "name": ("name", "id", "sample", "sample_name", "sample_id", "question_id"),
    "sequence": ("sequence", "sequence_path", "sequence_folder"),
    "video_times": ("video_times", "video_times_path", "timestamps"),
    "rectify": ("rectify", "rectify_path", "rectify_map"),
    **{field: time_columns(field) for field in TIMES},
}
"""What a column may be called, the preferred name first; capitals, blanks and hyphens make no difference."""

HALVES = frozenset({"events", "video", "image", "sequence"})
"""Columns of which a list of samples has one at least."""

LONGEST_TEXT = 100_000
LONGEST_NAME = 200

WITHOUT_VIDEO = "rows without a video"
WITHOUT_EVENTS = "rows without events"
LEFT_OUT = "rows that are left out"
ODD_TEXTS = "texts that are no texts"
TAKEN = "names that were taken"

_FIELDS = {synonym: field for field, names in SYNONYMS.items() for synonym in names}
_UNKNOWN_TOLD = 1000


@lru_cache(maxsize=256)
def column_name(key: str) -> str:
    """A column's name as it is compared."""
    return re.sub(r"[\s-]+", "_", key.strip()).casefold()


def known_columns(keys: Mapping[str, object]) -> set[str]:
    """Which of our columns the keys of a row give."""
    return {_FIELDS[column_name(key)] for key in keys if column_name(key) in _FIELDS}


class Names:
    """Gives every row a name of its own."""

    def __init__(self, problems: ManifestProblems) -> None:
        self._problems = problems
        self._next: dict[str, int] = {}

    def is_taken(self, name: str) -> bool:
        return name in self._next

    def unique(self, number: int, name: str, *, is_given: bool) -> str:
        """The name, or the name with the first free number after it when another row has it.

        That is told when the name `is_given` by the row: many questions about one recording are nothing odd.
        """
        if name not in self._next:
            self._next[name] = 2
            return name
        count = self._next[name]
        while f"{name} ({count})" in self._next:
            count += 1
        self._next[name] = count + 1
        given = f"{name} ({count})"
        self._next[given] = 2
        if not is_given:
            return given
        self._problems.add(TAKEN, f"Row {number}: another row is called '{shown(name)}', too; this one is '{given}'.")
        return given


class SampleTexts:
    """Prompts, reference answers and names as rows give them, cleaned; what cannot be one is told."""

    def __init__(self, problems: ManifestProblems) -> None:
        self._problems = problems
        self._same: dict[str, str] = {}

    def text(self, number: int, value: object, what: str) -> str | None:
        """A stripped text; None for what is empty, too long or none."""
        if value is None:
            return None
        if not isinstance(value, str):
            self._problems.add(ODD_TEXTS, f"Row {number}: its {what} should be a text, not {type_name(value)}.")
            return None
        if len(value) > LONGEST_TEXT:
            self._problems.add(
                ODD_TEXTS,
                f"Row {number}: its {what} has {len(value):,} characters, more than {LONGEST_TEXT:,} allowed.",
            )
            return None
        # Datasets ask few questions many times over.
        cleaned = clean(value)
        if len(self._same) < 10_000:
            return self._same.setdefault(cleaned, cleaned) or None
        return self._same.get(cleaned, cleaned) or None

    def turns(self, number: int, value: object) -> list[str]:
        """The questions of a conversation, in order; those that are none are told and left out."""
        if value is None or value == "":
            return []
        if not isinstance(value, list):
            self._problems.add(ODD_TEXTS, f"Row {number}: its turns should be a list, not {type_name(value)}.")
            return []
        if len(value) > MAX_TURNS:
            self._problems.add(ODD_TEXTS, f"Row {number}: has {len(value):,} turns; the first {MAX_TURNS:,} are read.")
        return [text for turn in value[:MAX_TURNS] if (text := self.text(number, turn, "question"))]

    def name(self, value: object, fallback: str) -> str:
        """A name on one line; `fallback`, a path, gives it where the row has none."""
        if isinstance(value, str):
            text = value
        elif value is None or isinstance(value, dict | list | bool):
            text = ""
        else:
            text = str(value)[: LONGEST_NAME + 1]
        text = " ".join(shown(clean(text), LONGEST_NAME).split())
        return text or shown(clean(path_name(fallback)), LONGEST_NAME) or "sample"


def clean(text: str) -> str:
    """Stripped; half characters (lone surrogates) and NULs, which cannot be stored, become question marks."""
    return text.encode("utf-8", errors="replace").decode("utf-8").replace("\0", "?").strip()


def path_name(path: str) -> str:
    """What a sample is called after its file: the path without its ending, of a long one the last three parts."""
    stem = os.path.splitext(path.replace("\\", "/").strip())[0]
    parts = [part for part in stem.split("/") if part not in ("", ".", "..")]
    return "/".join(parts[-3:] if path.startswith("/") or len(parts) > 4 else parts)


def usable(row: int, events: Half, video: Half, problems: ManifestProblems) -> bool:
    """Whether a row has a half at all; what is missing is told."""
    clauses = [half.missing for half in (events, video) if half.missing]
    if events.path is None and video.path is None:
        why = " and ".join(clauses) or "it names neither events nor a video"
        problems.add(LEFT_OUT, f"Row {row} is skipped, because {why}.")
        return False
    if video.missing:
        problems.add(WITHOUT_VIDEO, f"Row {row}: {video.missing}; the sample has only its events.")
    if events.missing:
        problems.add(WITHOUT_EVENTS, f"Row {row}: {events.missing}; the sample has only its video.")
    return True


def _cut(sample: Sample, clip: Mapping[str, int]) -> Sample:
    return replace(
        sample,
        start_us=clip.get("start_us"),
        duration_us=clip.get("duration_us"),
        video_offset_us=clip.get("video_offset_us", sample.video_offset_us),
    )


@dataclass(frozen=True)
class Entry:
    """What a row says before its files are looked for.

    `asked` holds questions and their answers, at least one. `cells` have the keys of the row's kind, those of EXPECTED
    included. `wrong` is why the row is left out.
    """

    name: str
    is_named: bool
    asked: list[tuple[str | None, str | None]]
    cells: Mapping[str, object]
    clip: Mapping[str, int] = field(default_factory=dict)
    wrong: str = ""


class RowSamples(ABC):
    """Converts the rows of a list: each becomes a sample for every question that is asked."""

    unit: ClassVar[str]
    """What the list calls its fields, for sentences."""
    has_prompts = False
    has_columns = False

    def __init__(
        self, files: Counterparts, texts: SampleTexts, names: Names, problems: ManifestProblems, choices: Choices
    ) -> None:
        self._files, self._texts, self._names, self._problems = files, texts, names, problems
        self._choices = choices
        self._expected = ExpectedCells(problems)
        self._unknown: set[str] = set()
        self._sequences: dict[str, Sequence | None] = {}
        self.without_prompt = self.later_questions = 0

    @abstractmethod
    def _entry(self, number: int, values: dict[str, object]) -> Entry:
        """What the row says."""

    @abstractmethod
    def _found(self, number: int, entry: Entry) -> Sample | None:
        """The recordings of a row; None, told, when it has none. Raises ValueError and UserError."""

    def samples(self, row: ManifestRow) -> Iterator[Sample]:
        """The samples of a row; none where it has no files."""
        number = row.number
        if not isinstance(row.values, dict):
            what = f"it is {type_name(row.values)} instead of names and values"
            self._problems.add(LEFT_OUT, f"Row {number} is skipped, because {what}.")
            return
        entry = self._entry(number, row.values)
        asked = entry.asked if self._choices.questions == "all" else entry.asked[:1]
        self.later_questions += len(entry.asked) - 1
        # Names are given before files are looked for: a sample keeps its name when other files come or go.
        later = [f"{entry.name}#{place}" for place in range(2, len(asked) + 1)]
        names = [entry.name, *(self._names.unique(number, name, is_given=entry.is_named) for name in later)]
        found, wrong = None, entry.wrong
        try:
            found = None if wrong else self._found(number, entry)
            if found is not None:
                found = _cut(found, entry.clip)
                found.validate()
        except ValueError as error:
            wrong = f"because {error}."
        except UserError as error:
            wrong = f"because: {error.sentence}"
        if wrong:
            self._problems.add(LEFT_OUT, f"Row {number} is skipped, {wrong}")
        if found is None or wrong:
            return
        question, answer = asked[0]
        self.has_prompts = self.has_prompts or question is not None
        self.without_prompt += question is None
        told = {"reference": answer} if answer else {}
        reference, expected = self._expected.of(number, {**entry.cells, **told})
        question = with_choices(question or Sample().prompt, expected.choices if expected else ())
        yield replace(found, prompt=question, name=names[0], reference=reference, expected=expected)
        # The row's answer is that of its first question.
        task = None if expected is None or not expected.task else ExpectedAnswer(task=expected.task)
        for name, (question, answer) in zip(names[1:], asked[1:], strict=True):
            prompt = question or Sample().prompt
            yield replace(found, prompt=prompt, name=name, reference=answer, expected=task)

    def _tell_unknown(self, key: str) -> None:
        if key not in self._unknown and len(self._unknown) < _UNKNOWN_TOLD:
            self._unknown.add(key)
            what = f"{self.unit.capitalize()} '{shown(key)}' is not known and is left out."
            self._problems.add(f"{self.unit}s that are not known", what)


def half_of(value: object, what: str, find: Callable[[str], Half]) -> Half:
    """The half that a cell names, by `find`."""
    problem = path_problem(value, what)
    if problem:
        return Half(None, problem)
    return find(value.strip()) if isinstance(value, str) and value.strip() else NOTHING


class ListedSamples(RowSamples):
    """Rows that say events, video, prompt, reference and name themselves."""

    unit = "column"

    def _entry(self, number: int, values: dict[str, object]) -> Entry:
        keyed = self._cells(values)
        cells = {field: value for field, (_, value) in keyed.items()}
        self.has_columns = self.has_columns or bool(cells.keys() & HALVES)
        clip, wrong = self._clip(keyed)
        turns = self._texts.turns(number, cells.get("turns"))
        asked: list[tuple[str | None, str | None]] = [(turn, None) for turn in turns]
        if not turns:
            asked = [(self._texts.text(number, cells.get("prompt"), "prompt"), None)]
        return Entry(self._name(number, cells, clip), True, asked, cells, clip, wrong)

    def _name(self, number: int, cells: Mapping[str, object], clip: Mapping[str, int]) -> str:
        """As the row says; clips of one recording are told apart by where they begin."""
        name = self._texts.name(cells.get("name"), self._first_path(cells))
        is_clip = bool(clip.keys() & {"start_us", "duration_us"})
        if is_clip and ("name" not in cells or self._names.is_taken(name)):
            return self._names.unique(number, clip_name(name, clip.get("start_us", 0)), is_given=False)
        return self._names.unique(number, name, is_given="name" in cells)

    def _found(self, number: int, entry: Entry) -> Sample | None:
        cells = entry.cells
        listed = self._sequence(cells)
        events = half_of(cells.get("events"), "events", self._events)
        video = half_of(cells.get("video"), "video", self._video)
        if video == NOTHING:
            video = half_of(cells.get("image"), "image", self._image)
        if listed is not None:
            if events.path is None or events.path == listed.folder:
                events = Half(listed.events_path)
            if video == NOTHING and listed.video_path is not None:
                video = Half(listed.video_path)
        if not usable(number, events, video, self._problems):
            return None
        found = Sample(events_path=events.path, video_path=video.path)
        if listed is not None and (found.events_path, found.video_path) == (listed.events_path, listed.video_path):
            found = listed.sample()
        times, rectify = (self._file(cells.get(field), field) for field in ("video_times", "rectify"))
        return replace(
            found,
            video_times_path=times or found.video_times_path,
            rectify_path=rectify or found.rectify_path,
        )

    def _sequence(self, cells: Mapping[str, object]) -> Sequence | None:
        """The folder that a row names as a whole, in its own column or as its events."""
        given = cells.get("sequence")
        is_asked = isinstance(given, str) and bool(given.strip())
        value = given if is_asked else cells.get("events")
        if path_problem(value, "sequence") or not isinstance(value, str) or not value.strip():
            return None
        folder = self._files.plain_folder(value.strip())
        if folder is None:
            if is_asked:
                raise ValueError(f"its sequence '{shown(value.strip())}' is not there, or no folder of a recording")
            return None
        if folder not in self._sequences:
            self._sequences[folder] = open_sequence(folder) if is_asked else find_sequence(folder)
        found = self._sequences[folder]
        return None if found is None else replace(found, folder=folder)

    def _file(self, value: object, what: str) -> str | None:
        """A file beside the recordings. Raises ValueError when it is not there."""
        problem = path_problem(value, what)
        if problem:
            raise ValueError(problem)
        if not isinstance(value, str) or not value.strip():
            return None
        path = self._files.file(value.strip())
        if path is None:
            raise ValueError(f"its {what} '{shown(value.strip())}' is not there")
        return path

    @staticmethod
    def _clip(keyed: Mapping[str, tuple[str, object]]) -> tuple[dict[str, int], str]:
        """The times that a row gives, by the fields of a sample, and why they are none."""
        try:
            given = {
                TIMES[field]: time_us(column_name(key), value)
                for field, (key, value) in keyed.items()
                if field in TIMES
            }
        except ValueError as error:
            return {}, f"because {error}."
        return {field: value for field, value in given.items() if value is not None}, ""

    def _cells(self, values: dict[str, object]) -> dict[str, tuple[str, object]]:
        """The row by our names, with the names it has; of two columns that say the same the preferred one counts."""
        found: dict[str, tuple[int, str, object]] = {}
        for key, value in values.items():
            field = _FIELDS.get(column_name(key))
            if field is None:
                self._tell_unknown(key)
                continue
            rank = SYNONYMS[field].index(column_name(key))
            given = found.get(field)
            if given is not None:
                lost, kept = (key, given[1]) if given[0] <= rank else (given[1], key)
                self._problems.once(f"Column '{shown(lost)}' is left out, because '{shown(kept)}' gives the {field}.")
            if given is None or rank < given[0]:
                found[field] = (rank, key, value)
        return {field: (key, value) for field, (_, key, value) in found.items()}

    @staticmethod
    def _first_path(cells: Mapping[str, object]) -> str:
        paths = (cells.get("sequence"), cells.get("events"), cells.get("video"), cells.get("image"))
        return next((path for path in paths if isinstance(path, str) and path), "")

    def _events(self, path: str) -> Half:
        found = self._files.events([path])
        return Half(found) if found else Half(None, f"its events '{shown(path)}' are not there")

    def _video(self, path: str) -> Half:
        return self._files.video([path])

    def _image(self, path: str) -> Half:
        """A picture, a video of one frame: as it is named, or below the folder `images` beside the list (MMSpec)."""
        found = next(filter(None, map(self._files.file, (path, f"images/{path}"))), None)
        return Half(found) if found else Half(None, f"its image '{shown(path)}' is not there")
