"""AIPerf's records, a line for each request: `profile_export.jsonl`, as AIPerf writes it and `evprof export` does.

Units are what a metric's own `unit` says; fields that are not known are passed over. Shape and definitions are told in
https://github.com/ai-dynamo/aiperf: docs/tutorials/working-with-profile-exports.md, docs/metrics-reference.md and
docs/reference/spec-decode-acceptance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evprof.core.records import TARGET
from evprof.loaders.legacy.checks import FileProblems, finite, mapping
from evprof.loaders.legacy.json_rows import DOCUMENTS, Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.servers.serving import (
    COVERS,
    FIRST,
    NETWORK,
    NO_REASON,
    REST,
    WHOLE,
    TimeCheck,
    answered,
    request_name,
    served_model,
)

UNITS_MS = {
    **dict.fromkeys(("ns", "nanoseconds"), 1e-6),
    **dict.fromkeys(("us", "µs", "microseconds"), 1e-3),
    **dict.fromkeys(("ms", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "seconds"), 1000.0),
}

_COUNTS = {
    "drafted_tokens": ("num_draft_tokens", "spec_decode_draft_tokens"),
    "accepted_tokens": ("num_accepted_draft_tokens", "spec_decode_accepted_draft_tokens"),
    "verified_rounds": ("num_spec_steps", "spec_decode_steps"),
}
"""Our name -> the key in a request's record of speculation, and the metric."""

_MOST_ACCEPTED = 10_000
"""Tokens of one round."""

_LAST_NS = 1 << 62


class AiperfRecords(RowReader):
    name = "AIPerf records"
    looks_for = "lines of metadata.request_start_ns and metrics (AIPerf's profile_export.jsonl)"
    reads_documents = documents_are_rows = True

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any(_is_record(head) for head in preview.objects(DOCUMENTS))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.covers = COVERS
        names = {FIRST: "TTFT", REST: "After the first token", WHOLE: "Request latency"}
        self.published = Published(totals={TARGET: [FIRST, REST]}, names=names, told={})
        drafts = any(_drafting(head, TimeCheck(0, FileProblems()))[0] for head in preview.objects(DOCUMENTS))
        self._mode = "speculative" if drafts else "target"

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        if place == DOCUMENTS and _is_record(raw):
            return [self._row(number, raw)]
        self._problems.of_row("a line is no record of a request and was left out", number)
        return []

    def _row(self, number: int, raw: Mapping[str, Any]) -> LegacyRow:
        metadata, metrics = mapping(raw["metadata"]), mapping(raw["metrics"])
        check = TimeCheck(number, self._problems)
        tokens = _count(check, metrics, "output_sequence_length")
        lent = _count(check, metrics, "input_sequence_length") or _count(check, metrics, "error_isl")
        first = check.ms("time_to_first_token", *_timed(check, metrics, "time_to_first_token"))
        total = check.ms("request_latency", *_timed(check, metrics, "request_latency"))
        gaps = check.all_ms("inter_chunk_latency", *_timed(check, metrics, "inter_chunk_latency"))
        error = _error(raw)
        times = check.answer(first, total, gaps, tokens) if error is None else None
        drafting, histogram = _drafting(raw, check) if times else ({}, {})
        name = metadata.get("conversation_id")
        turn = finite(metadata.get("turn_index"))
        sample = f"{name}, turn {turn:g}" if turn else str(name)
        row = LegacyRow(
            row=number,
            group=number,
            side="requests",
            role=TARGET,
            mode=self._mode,
            cell="AIPerf requests",
            sample=sample if isinstance(name, str) and name else request_name(number, lent),
            models={TARGET: served_model(None)},
            prompt="",
            output_tokens=tokens,
            is_warmup=metadata.get("benchmark_phase") == "warmup",
            accepted_histogram=histogram,
            started_at=_moment(metadata.get("request_start_ns")),
        )
        row = answered(row, check, times, error, lent)
        row.figures.update(drafting)
        return replace(row, is_cancelled=row.error is not None and metadata.get("was_cancelled") is True)

    def finish(self) -> None:
        self._problems.of_file(NETWORK)
        self._problems.of_file("Which model ran is not in the records; AIPerf's profile_export_aiperf.json says it")


def _is_record(raw: Mapping[str, Any]) -> bool:
    metadata = raw.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and isinstance(raw.get("metrics"), dict)


def _timed(check: TimeCheck, metrics: Mapping[str, Any], name: str) -> tuple[object, float]:
    """A metric's value and what makes it ms; no value where the unit is not of time."""
    found = mapping(metrics.get(name))
    if not found:
        return None, 1.0
    factor = UNITS_MS.get(str(found.get("unit")))
    if factor is None:
        check.problems.of_row(f"{name} is in a unit that is none of time, and was left out", check.row)
        return None, 1.0
    return found.get("value"), factor


def _count(check: TimeCheck, metrics: Mapping[str, Any], name: str) -> int | None:
    return check.count(name, mapping(metrics.get(name)).get("value"))


def _error(raw: Mapping[str, Any]) -> str | None:
    error = raw.get("error")
    if error is None:
        return None
    told = mapping(error)
    parts = [str(told[key]) for key in ("type", "message") if told.get(key)]
    return ": ".join(dict.fromkeys(parts)) or NO_REASON


def _drafting(raw: Mapping[str, Any], check: TimeCheck) -> tuple[dict[str, float], dict[int, int]]:
    """Counts of speculation, and how many rounds accepted how many tokens; empty where they are not told or wrong."""
    own, metrics = mapping(raw.get("spec_decode_acceptance")), mapping(raw.get("metrics"))
    told = {name: own.get(key, mapping(metrics.get(tag)).get("value")) for name, (key, tag) in _COUNTS.items()}
    counts = {name: check.count(name, value) for name, value in told.items()}
    known = {name: float(value) for name, value in counts.items() if value is not None}
    if len(known) < len(counts) or known["accepted_tokens"] > known["drafted_tokens"]:
        if known:
            check.problems.of_row("the counts of drafted and accepted tokens contradict each other", check.row)
        return {}, {}
    histogram = {
        int(accepted): rounds
        for accepted, rounds in mapping(own.get("acceptance_histogram")).items()
        if accepted.isdecimal() and len(accepted) < 6 and isinstance(rounds, int) and not isinstance(rounds, bool)
    }
    is_whole = (
        all(0 <= accepted <= _MOST_ACCEPTED and 0 < rounds < _LAST_NS for accepted, rounds in histogram.items())
        and sum(histogram.values()) == known["verified_rounds"]
        and sum(accepted * rounds for accepted, rounds in histogram.items()) == known["accepted_tokens"]
    )
    if histogram and not is_whole:
        check.problems.of_row("acceptance_histogram does not add up to its record's counts", check.row)
    return known, histogram if is_whole else {}


def _moment(value: object) -> str | None:
    """A time in ns since 1970 as ISO 8601; None for what is none."""
    number = finite(value)
    if number is None or not 0 < number < _LAST_NS:
        return None
    return datetime.fromtimestamp(number / 1e9, UTC).isoformat()
