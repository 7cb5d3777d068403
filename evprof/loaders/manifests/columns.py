"""Samples from the rows of a list in evprof's own columns: events, video, prompt, reference, name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from evprof.core.sample import Sample
from evprof.loaders.manifests.counterparts import NOTHING, Counterparts, Half, path_problem, type_name
from evprof.loaders.manifests.problems import Problems, shown
from evprof.loaders.manifests.rows import Row

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "events": ("events", "event", "events_path", "event_path", "events_file", "event_file", "npy"),
    "video": ("video", "video_path", "video_file", "mp4"),
    "prompt": ("prompt", "question", "query", "instruction"),
    "reference": ("reference", "answer", "reference_answer", "ground_truth", "expected"),
    "name": ("name", "id", "sample", "sample_name", "sample_id"),
}
"""What a column may be called, the preferred name first; capitals, blanks and hyphens make no difference."""

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
    """Which of events, video, prompt, reference and name the keys of a row give."""
    return {_FIELDS[column_name(key)] for key in keys if column_name(key) in _FIELDS}


class Names:
    """Gives every row a name of its own."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._next: dict[str, int] = {}

    def unique(self, number: int, name: str, *, is_given: bool) -> str:
        """The name, or the name with the first free number behind it when another row has it.

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

    def __init__(self, problems: Problems) -> None:
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


def usable(row: int, events: Half, video: Half, problems: Problems) -> bool:
    """Whether a row has a half at all; what is missing is told."""
    clauses = [half.missing for half in (events, video) if half.missing]
    if events.path is None and video.path is None:
        why = " and ".join(clauses) or "it names neither events nor a video"
        problems.add(LEFT_OUT, f"Row {row}: is left out, because {why}.")
        return False
    if video.missing:
        problems.add(WITHOUT_VIDEO, f"Row {row}: {video.missing}; the sample has only its events.")
    if events.missing:
        problems.add(WITHOUT_EVENTS, f"Row {row}: {events.missing}; the sample has only its video.")
    return True


def left_out(row: Row, problems: Problems) -> None:
    """Tells a row that is no table of names and values."""
    problems.add(
        LEFT_OUT,
        f"Row {row.number}: is left out, because it is {type_name(row.values)} instead of names and values.",
    )


class ListedSamples:
    """Converts rows that say events, video, prompt, reference and name themselves."""

    def __init__(self, files: Counterparts, texts: SampleTexts, names: Names, problems: Problems) -> None:
        self._files, self._texts, self._names, self._problems = files, texts, names, problems
        self._unknown: set[str] = set()
        self.without_prompt = 0
        self.has_prompts = False
        self.has_columns = False

    def samples(self, row: Row) -> Iterator[Sample]:
        """The sample of a row, if it is one."""
        if not isinstance(row.values, dict):
            left_out(row, self._problems)
            return
        cells = self._cells(row.values)
        self.has_columns = self.has_columns or bool(cells.keys() & {"events", "video"})
        name = self._texts.name(cells.get("name"), self._first_path(cells))
        name = self._names.unique(row.number, name, is_given="name" in cells)
        events, video = self._events(cells.get("events")), self._video(cells.get("video"))
        if not usable(row.number, events, video, self._problems):
            return
        prompt = self._texts.text(row.number, cells.get("prompt"), "prompt")
        self.has_prompts = self.has_prompts or prompt is not None
        self.without_prompt += prompt is None
        yield Sample(
            events_path=events.path,
            video_path=video.path,
            prompt=prompt or Sample().prompt,
            name=name,
            reference=self._texts.text(row.number, cells.get("reference"), "reference answer"),
        )

    def _cells(self, values: dict[str, object]) -> dict[str, object]:
        """The row by our names; of two columns that say the same the preferred one counts."""
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
        return {field: value for field, (_, _, value) in found.items()}

    def _tell_unknown(self, key: str) -> None:
        if key not in self._unknown and len(self._unknown) < _UNKNOWN_TOLD:
            self._unknown.add(key)
            self._problems.add("columns that are not known", f"Column '{shown(key)}' is not known and is left out.")

    @staticmethod
    def _first_path(cells: Mapping[str, object]) -> str:
        paths = (cells.get("events"), cells.get("video"))
        return next((path for path in paths if isinstance(path, str) and path), "")

    def _events(self, value: object) -> Half:
        problem = path_problem(value, "events")
        if problem or not isinstance(value, str) or not value.strip():
            return Half(None, problem) if problem else NOTHING
        path = self._files.events([value.strip()])
        return Half(path) if path else Half(None, f"its events '{shown(value.strip())}' are not there")

    def _video(self, value: object) -> Half:
        problem = path_problem(value, "video")
        if problem or not isinstance(value, str) or not value.strip():
            return Half(None, problem) if problem else NOTHING
        return self._files.video([value.strip()])
