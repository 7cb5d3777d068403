"""Recognizes the family of a result file by its content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evprof.core.errors import UserError
from evprof.loaders.legacy import servers
from evprof.loaders.legacy.families import Table, families, shape_of
from evprof.loaders.legacy.json_rows import Preview
from evprof.loaders.legacy.reading import AnswerReading, Reading
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.paths import first_bytes


class Family(NamedTuple):
    """A kind of file. `opened` returns None for a file of another family."""

    name: str
    opened: Callable[[Preview], Reading | None]
    documents_are_rows: bool = False


def _answers(preview: Preview, table: Table) -> Reading | None:
    shape = shape_of(table, preview)
    return None if shape is None else AnswerReading(preview, shape)


FAMILIES = (
    *(Family(table["name"], partial(_answers, table=table)) for table in families()),
    Family("vLLM serving benchmark", partial(servers.serving, program=servers.VLLM)),
    Family("SGLang serving benchmark", partial(servers.serving, program=servers.SGLANG)),
    Family("SGLang one batch", servers.batches, documents_are_rows=True),
    Family("AIPerf records", servers.records, documents_are_rows=True),
)
"""In order of precedence."""

_MARKS = (
    *(b"eventgpt_frames", b"s4_time", b"stage1_time", b"baseline_per_sample", b"sd_per_sample"),
    *(b"egpt_prefill_time", b"vl_prefill_time", b"egpt_token_ids", b"egpt_error", b"draft_time"),
    *(b"eventgpt_tokens", b"eventgpt_results", b"target_tokens", b"acceptance_estimate", b"egpt_tokens"),
    *(b"adapted_draft_tokens", b'"endpoint_type"', b'"request_throughput"', b'"sharegpt_output_len"'),
    *(b'"prefill_latency"', b'"last_ttft"', b'"request_start_ns"'),
)
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class LegacyFile:
    path: Path
    family: Family
    preview: Preview

    @property
    def rows(self) -> int:
        return self.preview.documents if self.family.documents_are_rows else self.preview.rows

    def read(self) -> Reading:
        reading = self.family.opened(self.preview)
        assert reading is not None
        return reading

    def first_rows(self) -> list[LegacyRow]:
        """The first rows of each list; none of a benchmark with its own warm-up."""
        reading = self.read()
        return [] if reading.reads_documents else reading.first_rows()


def open_legacy(path: str | Path) -> LegacyFile:
    """Reads the file once and recognizes its family. Raises UserError for files that are damaged or of no family."""
    path = Path(path)
    if not _is_json(first_bytes(path, _HEAD_BYTES)):
        raise UserError(
            f"{path}: holds no JSON object and no JSON list; evprof import reads result files of earlier scripts and "
            "of serving benchmarks, and lists of samples go to evprof suite."
        )
    preview = Preview.of(path)
    for family in FAMILIES:
        reading = family.opened(preview)
        if reading is None:
            continue
        if preview.documents > 1 and not reading.reads_documents:
            raise UserError(
                f"{path}: holds {preview.documents} JSON documents, one after the other, where a file of its family "
                f"({family.name}) holds one; divide it."
            )
        return LegacyFile(path, family, preview)
    raise UserError(
        f"{path}: is no result file that evprof knows: those of `vllm bench serve`, sglang.bench_serving and AIPerf's "
        "profile_export.jsonl, and tables of stages; docs/importing.md lists their keys."
    )


def is_legacy(path: str | Path) -> bool:
    try:
        head = first_bytes(path, _HEAD_BYTES)
    except UserError:
        return False
    return _is_json(head) and (any(mark in head for mark in _MARKS) or (b'"results"' in head and b'"errors"' in head))


def _is_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
