"""Which family a result file belongs to, told by its content, and its rows one by one."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.loaders.legacy.checks import FileProblems, error_kind
from evprof.loaders.legacy.drafts import EndToEnd, MatchedAnswers, VerifiedDrafts
from evprof.loaders.legacy.json_rows import DOCUMENTS, JsonRows, Place
from evprof.loaders.legacy.reading import Preview, RowReader
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.servers.aiperf import AiperfRecords
from evprof.loaders.legacy.servers.serving import VllmServing
from evprof.loaders.legacy.servers.sglang import SglangBatches, SglangServing
from evprof.loaders.legacy.stages import FiveStages, FourStages, OneVersusEight, PrefillRows, SampleRows
from evprof.loaders.paths import opened_file

FAMILIES: tuple[type[RowReader], ...] = (
    *(OneVersusEight, EndToEnd, FiveStages, FourStages, MatchedAnswers, VerifiedDrafts, PrefillRows),
    SampleRows,
    *(VllmServing, SglangServing, SglangBatches, AiperfRecords),
)
"""In order of asking: the laboratory's own, and those of other benchmarks."""

_MARKS = (
    *(b"eventgpt_frames", b"s4_time", b"stage1_time", b"baseline_per_sample", b"sd_per_sample"),
    *(b"egpt_prefill_time", b"vl_prefill_time", b"egpt_token_ids", b"egpt_error", b"draft_time"),
    *(b"eventgpt_tokens", b"eventgpt_results", b"target_tokens", b"acceptance_estimate", b"egpt_tokens"),
    *(b"adapted_draft_tokens", b'"endpoint_type"', b'"request_throughput"', b'"sharegpt_output_len"'),
    *(b'"prefill_latency"', b'"last_ttft"', b'"request_start_ns"'),
)
_HEAD_BYTES = 1 << 16

LOOKED_AT = 24
"""Rows of each list that are kept from the first reading."""


@dataclass(frozen=True)
class LegacyFile:
    """A result file whose family is known."""

    path: Path
    family: type[RowReader]
    preview: Preview

    @property
    def rows(self) -> int:
        return self.preview.documents if self.family.documents_are_rows else self.preview.rows

    def read(self, problems: FileProblems) -> tuple[RowReader, Iterator[LegacyRow]]:
        """A reader and its rows; what is wrong with the file is in `problems` when the rows are at their end."""
        reader = self.family(self.preview, problems)
        return reader, self._rows(reader, problems)

    def _rows(self, reader: RowReader, problems: FileProblems) -> Iterator[LegacyRow]:
        for place, number, raw in JsonRows(self.path).rows():
            if place == DOCUMENTS and not self.family.reads_documents:
                continue
            rows = reader.read(place, number, raw)
            told = problems.taken()
            yield from (_noted(row, rows, told) for row in rows) if told else rows
        reader.finish()
        if (strange := self.preview.not_numbers - reader.understood) > 0:
            problems.of_file(f"{strange:,} values are NaN or Infinity, which are no numbers and were read as null")

    def first_rows(self) -> list[LegacyRow]:
        """The first rows of each list, for a look ahead; none of a benchmark that warms up by itself."""
        if self.family.reads_documents:
            return []
        reader = self.family(self.preview, FileProblems())
        return [
            row
            for place, raws in self.preview.first.items()
            if place != DOCUMENTS
            for number, raw in enumerate(raws)
            for row in reader.read(place, number, raw)
        ]


def _noted(row: LegacyRow, rows: list[LegacyRow], told: list[str]) -> LegacyRow:
    """The row with what was told of it; what begins with the name of another model is that one's."""
    others = tuple(f"{other.side}:" for other in rows if other.side != row.side)
    own = [sentence for sentence in told if not sentence.startswith(others)]
    if row.error is not None:  # which the row says itself
        own = [sentence for sentence in own if error_kind(row.error) not in sentence]
    return replace(row, notes=tuple(f"{sentence}." for sentence in own))


def open_legacy(path: str | Path) -> LegacyFile:
    """The file read through once, and its family.

    Raises UserError, in one sentence, when it cannot be read, is damaged, or is of no family that is known.
    """
    found = Path(path)
    try:
        if not stat.S_ISREG(found.stat().st_mode):
            raise UserError(f"{found}: is no file; name a JSON file of results.")
    except FileNotFoundError:
        raise UserError(f"{found}: there is no such file; check the name.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{found}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if not _begins_as_json(found):
        raise UserError(
            f"{found}: holds no JSON object and no JSON list; evprof import reads result files of earlier scripts and "
            "of serving benchmarks, and lists of samples go to evprof suite."
        )
    preview = _preview(found)
    family = next((family for family in FAMILIES if family.recognises(preview)), None)
    if family is None:
        looked_for = "; ".join(family.looks_for for family in FAMILIES)
        raise UserError(f"{found}: is of no family of result files that is known; looked for: {looked_for}.")
    if preview.documents > 1 and not family.reads_documents:
        raise UserError(
            f"{found}: holds {preview.documents} JSON documents, one after the other, where a file of its family "
            f"({family.name}) holds one; divide it."
        )
    return LegacyFile(found, family, preview)


def is_legacy(path: str | Path) -> bool:
    """Whether a file begins as a result file of these families does; whether it is one `open_legacy` finds out."""
    try:
        head = _head(Path(path))
    except (UserError, OSError, ValueError):
        return False
    if not _is_json(head):
        return False
    return any(mark in head for mark in _MARKS) or (b'"results"' in head and b'"errors"' in head)


def _head(path: Path) -> bytes:
    with opened_file(path) as file:
        return file.read(_HEAD_BYTES)


def _is_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _begins_as_json(path: Path) -> bool:
    """Whether a file may be JSON; one that cannot be read, or is empty, has its own sentence from the reader."""
    try:
        head = _head(path)
    except (UserError, OSError):
        return True
    return not head.strip() or _is_json(head)


def _preview(path: Path) -> Preview:
    reading = JsonRows(path)
    first: dict[Place, list[Any]] = {}
    for place, number, raw in reading.rows():
        if number < LOOKED_AT:
            first.setdefault(place, []).append(raw)
    return Preview(path, reading.around, dict(reading.counts), first, reading.not_numbers, reading.documents)
