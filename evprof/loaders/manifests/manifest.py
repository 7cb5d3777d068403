"""A list of samples in CSV, JSON or EventGPT's instruction JSON, as samples and problems.

The list is read once, in order. Files are looked for and not opened. A row that is invalid is reported and skipped.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.units import count_text
from evprof.loaders.manifests.rows import CSV, HEAD_BYTES, JSON, ManifestProblems, first_row, read_rows, text_format
from evprof.loaders.manifests.samples import HALVES, MARKS, SampleReading, column_name, known_columns
from evprof.loaders.paths import first_bytes, unreadable

MAX_SAMPLES = 500_000

MAX_ROWS_READ = 20
"""Rows that are read for each sample of a limit: the window must not wait for a list without any."""

_RESULT_KEYS = ("_token_ids", "_time")
"""Ends of keys of result files, whose rows also name samples."""

Questions = Literal["first", "all"]


@dataclass(frozen=True)
class Manifest:
    """The samples of a dataset in the file's order, with unique names.

    `kind` is csv, json or instruction. `rows` counts all entries of the file. `problems` are sentences with the number
    of the row, from 1 without a CSV's header.
    """

    path: Path
    kind: str
    samples: tuple[Sample, ...]
    problems: tuple[str, ...]
    rows: int


def read_manifest(
    path: str | Path, *, root: str | Path | None = None, questions: Questions = "first", limit: int | None = None
) -> Manifest:
    """Reads a list of samples. Relative paths start from `root`, or from the file's folder.

    `questions` are the first or all of a row. Reading ends at `limit` samples, or twenty times as many rows, with the
    problem `cut_sentence`. Raises UserError for a file that is no list, or cut short.
    """
    path = Path(path)
    form = text_format(first_bytes(path, HEAD_BYTES))
    if form is None:
        raise UserError(f"{path}: is no text; a list of samples is a CSV or JSON file in UTF-8.")
    problems = ManifestProblems()
    reading = SampleReading(os.path.abspath(path.parent if root is None else root), questions == "all", problems)
    samples: list[Sample] = []
    rows = 0
    try:
        with closing(read_rows(path, form)) as entries:
            for values in entries:
                if limit is not None and (len(samples) >= limit or rows >= MAX_ROWS_READ * limit):
                    problems.once(cut_sentence(rows))
                    break
                rows += 1
                samples += reading.samples(rows, values)
                if len(samples) > MAX_SAMPLES:
                    raise UserError(f"{path}: lists more than {MAX_SAMPLES:,} samples; split it.")
    except OSError as error:
        raise unreadable(path, error) from None
    if rows and not reading.has_columns:
        raise UserError(
            f"{path}: is no list of samples; its columns would have to be events, video, prompt and the like."
        )
    if rows == 0:
        problems.once("The file lists no samples.")
    elif not samples:
        problems.once("No row has a file that is there; paths start from the folder of the list.")
    if reading.without_prompt and reading.has_prompts:
        problems.once(
            f"{count_text(reading.without_prompt, 'sample')} without a question: '{Sample().prompt}' is asked."
        )
    if later := reading.later_questions:
        how = "each is asked on its own, without the turns before it" if questions == "all" else ""
        problems.once(
            f"{count_text(later, 'later question')}{f': {how}.' if how else ' left out; --questions all takes them.'}"
        )
    kind = "instruction" if form == JSON and reading.is_instruction else form
    return Manifest(path, kind, tuple(samples), problems.sentences(), rows)


def cut_sentence(rows: int) -> str:
    return f"Only the first {count_text(rows, 'row')} of the list {'was' if rows == 1 else 'were'} read."


def is_manifest(path: str | Path) -> bool:
    """Whether the first 64 KiB of a file begin like a list of samples."""
    try:
        head = first_bytes(path, HEAD_BYTES)
    except UserError:
        return False
    form = text_format(head)
    first = None if form is None else first_row(head, form)
    if first is None:
        return False
    keys = {column_name(key) for key in first}
    if any(key.endswith(_RESULT_KEYS) for key in keys) or not (keys & MARKS or known_columns(first) & HALVES):
        return False
    # One word on the first line of a text does not make it a table.
    return form != CSV or len(keys) > 1 or keys <= HALVES
