"""A dataset manifest: a list of samples in CSV, JSON or EventGPT's instruction JSON, as samples and problems.

Everything is read once, in order; files are looked for and never opened. What a list gets wrong is told in sentences
and never stops the rest, unless the file is no list of samples at all.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.texts import nearest
from evprof.core.units import count_text
from evprof.loaders.manifests.columns import (
    HALVES,
    ListedSamples,
    Names,
    RowSamples,
    SampleTexts,
    column_name,
    known_columns,
)
from evprof.loaders.manifests.counterparts import Counterparts
from evprof.loaders.manifests.instruction_json import MARKS, InstructionSamples
from evprof.loaders.manifests.rows import (
    CSV,
    HEAD_BYTES,
    JSON,
    Choices,
    EventsFrom,
    ManifestProblems,
    ManifestRow,
    Questions,
    VideoFrom,
    first_row,
    read_rows,
    text_format,
)
from evprof.loaders.paths import first_bytes, unreadable

INSTRUCTION = "instruction"
MAX_SAMPLES = 500_000

MAX_ROWS_READ = 20
"""Rows that are read for each sample of a limit: a window cannot wait for a list without any."""

_MOST_SHOWN = 8
"""Columns that a sentence names."""

_RESULT_KEYS = ("_token_ids", "_time")
"""Ends of keys that only files with results have; they list their samples, too, but are opened for their figures."""


@dataclass(frozen=True)
class Manifest:
    """The samples of a dataset in the file's order, each with a name of its own.

    `kind` is csv, json or instruction; `rows` counts entries of the file, also those left out; `problems` are
    sentences that name the row (a CSV's header is none), after 50 of a kind summed up.
    """

    path: Path
    kind: str
    samples: tuple[Sample, ...]
    problems: tuple[str, ...]
    rows: int


def read_manifest(
    path: str | Path,
    *,
    root: str | Path | None = None,
    questions: Questions = "first",
    events_from: EventsFrom = "auto",
    video_from: VideoFrom = "auto",
    limit: int | None = None,
) -> Manifest:
    """Reads a list of samples; relative paths start from `root`, without it from the file's folder.

    `questions`, `events_from` and `video_from` are for EventGPT's entries: the first or every question of one, and
    which of the dataset's folders are used. With `limit` reading ends at that many samples (or twenty times as many
    rows), and a problem, `cut_sentence`, says so. Raises UserError when the file is no list, or cut short.
    """
    found = Path(path)
    form = text_format(first_bytes(found, HEAD_BYTES))
    if form is None:
        raise UserError(f"{path}: is no text; a list of samples is a CSV or JSON file in UTF-8.")
    problems = ManifestProblems()
    folder = os.path.abspath(found.parent if root is None else root)
    reading = _Reading(folder, problems, Choices(questions, events_from, video_from))
    try:
        with closing(read_rows(found, form, problems)) as rows:
            for row in rows:
                if limit is not None and (len(reading.samples) >= limit or reading.rows >= MAX_ROWS_READ * limit):
                    problems.once(cut_sentence(reading.rows))
                    break
                reading.take(row)
                if len(reading.samples) > MAX_SAMPLES:
                    raise UserError(f"{path}: lists more than {MAX_SAMPLES:,} samples; split it.")
    except OSError as error:
        raise unreadable(path, error) from None
    if reading.rows and not reading.has_columns:
        raise UserError(
            f"{path}: is no list of samples; its columns would have to be events, video, prompt and the like."
        )
    reading.sum_up()
    kind = INSTRUCTION if form == JSON and reading.is_instruction else form
    return Manifest(found, kind, tuple(reading.samples), problems.sentences(), reading.rows)


def cut_sentence(rows: int) -> str:
    return f"Only the first {count_text(rows, 'row')} of the list {'was' if rows == 1 else 'were'} read."


def is_manifest(path: str | Path) -> bool:
    """Whether a file begins like a list of samples; by content, from its first 64 KiB."""
    try:
        head = first_bytes(path, HEAD_BYTES)
    except UserError:
        return False
    form = text_format(head)
    if form is None:
        return False
    first = first_row(head, form)
    if first is None:
        return False
    keys = {column_name(key) for key in first}
    if any(key.endswith(_RESULT_KEYS) for key in keys):
        return False
    if form != CSV:
        return bool(keys & MARKS) or bool(known_columns(first) & HALVES)
    # One word on the first line of a text does not make it a table.
    halves = known_columns(first) & HALVES or keys & MARKS
    return bool(halves) and (len(keys) > 1 or keys <= HALVES)


def why_no_manifest(path: str | Path) -> str:
    """What keeps a file that looks like a list of samples from being one, as it follows on its name; "" for others.

    Raises UserError for a file that is empty or cannot be read.
    """
    head = first_bytes(path, HEAD_BYTES)
    form = text_format(head)
    first = None if form is None else first_row(head, form)
    if first is None:
        return "is an empty list of samples; give it rows." if form == JSON and not head.strip(b"[] \r\n\t") else ""
    guesses = (nearest(column_name(key), HALVES) for key in first)
    guess = next((name for name in guesses if name), None)
    if guess is None and not known_columns(first):
        return ""
    listed = ", ".join(key[:40] for key in list(first)[:_MOST_SHOWN])
    ending = f"did you mean {guess}?" if guess else "a list of samples needs one of them."
    return f"has no column {', '.join(sorted(HALVES)[:-1])} or {sorted(HALVES)[-1]} among {listed}; {ending}"


class _Reading:
    """Turns rows into samples; the first row decides whose keys they have."""

    def __init__(self, root: str, problems: ManifestProblems, choices: Choices) -> None:
        self.samples: list[Sample] = []
        self.rows = 0
        self._problems = problems
        self._choices = choices
        self._parts = (Counterparts(root), SampleTexts(problems), Names(problems), problems)
        self._source: RowSamples | None = None

    @property
    def is_instruction(self) -> bool:
        return isinstance(self._source, InstructionSamples)

    @property
    def has_columns(self) -> bool:
        """Whether any row says where events or a video are."""
        return self._source is not None and self._source.has_columns

    def take(self, row: ManifestRow) -> None:
        self.rows += 1
        if self._source is None and isinstance(row.values, dict):
            keys = {column_name(key) for key in row.values}
            self._source = (
                InstructionSamples(*self._parts, self._choices)
                if keys & MARKS
                else ListedSamples(*self._parts, self._choices)
            )
        source = self._source or ListedSamples(*self._parts, self._choices)
        self.samples += source.samples(row)

    def sum_up(self) -> None:
        """Tells what is only known at the end."""
        source = self._source
        if self.rows == 0:
            self._problems.once("The file lists no samples.")
        elif not self.samples:
            self._problems.once("No row has a file that is there; paths start from the folder of the list.")
        if source is not None and source.without_prompt and source.has_prompts:
            self._problems.once(
                f"{count_text(source.without_prompt, 'sample')} without a question: '{Sample().prompt}' is asked."
            )
        if source is not None and source.later_questions:
            many = count_text(source.later_questions, "later question")
            if self._choices.questions == "all":
                self._problems.once(f"{many}: each is asked on its own, without the turns before it.")
            else:
                self._problems.once(f"{many} left out; --questions all takes them.")
