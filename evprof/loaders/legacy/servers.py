"""Results of programs that measure a server from outside, or an engine as a whole: vLLM, SGLang, AIPerf.

vLLM: `vllm bench serve --save-result --save-detailed`. SGLang: `sglang.bench_serving`, a line per benchmark, whose
requests end with their last piece, and `sglang.bench_one_batch` and `bench_one_batch_server`, a line per batch.
AIPerf: `profile_export.jsonl`, a line per request, as `evprof export` writes it.

Definitions: python/sglang/benchmark/serving.py of sgl-project/sglang; docs/tutorials/working-with-profile-exports.md,
docs/metrics-reference.md and docs/reference/spec-decode-acceptance.md of ai-dynamo/aiperf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

from evprof.core.records import TARGET
from evprof.core.run_info import NOT_TOLD, ModelFacts
from evprof.core.units import count_text
from evprof.loaders.legacy.json_rows import DOCUMENTS, REQUESTS, Place, Preview
from evprof.loaders.legacy.reading import Covers, Reading
from evprof.loaders.legacy.rows import (
    MS_PER_S,
    NO_TIME,
    FileProblems,
    Interval,
    LegacyRow,
    error_kind,
    finite,
    mapping,
    model_facts,
)

BEFORE = ("preprocess", "vision", "prefill")
"""Everything before a first token is sent. A request without pictures has no vision in it."""

FIRST, REST, WHOLE = "ttft", "latency - ttft", "latency"
COVERS: Covers = {TARGET: {FIRST: [*BEFORE], REST: ["decode"], WHOLE: [*BEFORE, "decode"]}}

LONGEST_MS = 6 * 3600 * 1000.0
"""Timeout of the clients."""

NETWORK = (
    "Times are the client's: the time to the first token counts from sending the request, so it holds the network, "
    "waiting in the server's queue and, beside others' requests, waiting for them; loading is no part of it"
)
CHUNKS = "pieces of several tokens came, so that not every token has a time of its own; gaps are between pieces"
NO_REASON = "the file says that this request failed, and not why"
OF_BENCHMARK = (
    "What was drafted and accepted is counted by the server over the whole benchmark; it stands with this request only"
)


@dataclass(frozen=True)
class AnswerTimes:
    """The times of one answer. `token_times_ms` is () unless every token has its own time."""

    intervals: tuple[Interval, ...]
    token_times_ms: tuple[float, ...] = ()
    has_first_token_time: bool = False


@dataclass
class TimeCheck:
    """Reads values of one request. Invalid values are reported and become None."""

    row: int
    problems: FileProblems

    def tell(self, sentence: str) -> None:
        self.problems.of_row(sentence, self.row)

    def ms(self, name: str, value: object, factor: float = 1.0) -> float | None:
        number = finite(value)
        if value is not None and (number is None or not 0 <= number * factor <= LONGEST_MS):
            self.tell(f"{name} is no time, and was left out")
            return None
        return None if number is None else number * factor

    def all_ms(self, name: str, values: object, factor: float = 1.0) -> tuple[float, ...] | None:
        if values is None:
            return None
        times = [self.ms(name, value, factor) for value in values] if isinstance(values, list) else [None]
        known = tuple(time for time in times if time is not None)
        if len(known) < len(times):
            self.tell(f"{name} is no list of times, and was left out")
            return None
        return known

    def count(self, name: str, value: object) -> int | None:
        number = finite(value)
        if value is not None and (number is None or number != int(number) or not 0 <= number < 1 << 40):
            self.tell(f"{name} is no count, and was left out")
            return None
        return None if number is None else int(number)

    def answer(
        self, first_ms: float | None, total_ms: float | None, gaps_ms: Sequence[float] | None, tokens: int | None
    ) -> AnswerTimes | None:
        """The answer's times, none of an answer that was not timed; None without an answer.

        Without a latency the answer ends with its last piece.

        A first token of 0 ms was not timed. A first token that came with all others has no time of its own.
        """
        if total_ms is None and first_ms:
            if gaps_ms is None and tokens != 1:
                # Only the beginning of the answer is known.
                return AnswerTimes((Interval(FIRST, BEFORE, first_ms, TARGET),), has_first_token_time=True)
            total_ms = first_ms + sum(gaps_ms or ())
        if not total_ms:
            return None if tokens is None else AnswerTimes(())
        if first_ms and first_ms > total_ms:
            self.tell("the first token comes after the last one, and has no time therefore")
            first_ms = None
        came_together = first_ms == total_ms and tokens != 1
        if came_together:
            self.tell("the answer came in one piece, so its first token has no time of its own")
        if not first_ms or came_together:
            return AnswerTimes((Interval(WHOLE, (*BEFORE, "decode"), total_ms, TARGET),))
        parts = (Interval(FIRST, BEFORE, first_ms, TARGET), Interval(REST, ("decode",), total_ms - first_ms, TARGET))
        times: tuple[float, ...] = ()
        if gaps_ms is not None and tokens == len(gaps_ms) + 1:
            times = tuple(accumulate(gaps_ms, initial=first_ms))
        elif gaps_ms is not None and tokens is not None:
            self.tell(CHUNKS)
        return AnswerTimes(parts, times, has_first_token_time=True)


def request_row(
    check: TimeCheck, times: AnswerTimes | None, error: str | None, given: int | None, tokens: int | None, **values: Any
) -> LegacyRow:
    """The row of a request with its times, or with the reason of its failure, and tokens of prompt and answer."""
    error = error or (NO_TIME if times is None else None)
    if error is not None:
        check.tell(f"failed requests: {error_kind(error)}")
        times, tokens = None, None
    return LegacyRow(
        row=check.row,
        group=check.row,
        side="requests",
        role=TARGET,
        prompt="",
        output_tokens=tokens,
        figures={} if given is None else {"input_sequence_length": float(given)},
        error=error,
        **(values if times is None else values | vars(times)),
    )


def request_name(number: int, input_tokens: int | None) -> str:
    """The name of a request without one: its position and its length."""
    return f"request {number}" if input_tokens is None else f"request {number}, {input_tokens} tokens"


def served_model(name: object) -> ModelFacts:
    return model_facts(name=name[:200] if isinstance(name, str) and name else NOT_TOLD)


# Serving benchmarks of vLLM and SGLang


@dataclass(frozen=True)
class Program:
    """What differs between the programs. `keys` identify a benchmark, `model_keys` lead to its model's name."""

    keys: frozenset[str]
    model_keys: tuple[str, ...]
    settings: tuple[str, ...]
    label: Callable[[Mapping[str, Any]], str]
    divides_gaps: bool = False
    """Gaps of a piece of several tokens are divided evenly among them."""


def _traffic(head: Mapping[str, Any]) -> str:
    """`4 requests/s`, `at most 8 at once`."""
    rate, most = finite(head.get("request_rate")), finite(head.get("max_concurrency"))
    parts = [] if rate is None else [f"{rate:g} requests/s"]
    parts += ["as in a trace"] if head.get("request_rate") == "trace" else []
    parts += [] if most is None else [f"at most {most:g} at once"]
    return ", ".join(parts) or "all at once"


def _vllm_label(head: Mapping[str, Any]) -> str:
    # Without a name of its own a benchmark is labelled by its backend.
    named = head.get("label") if head.get("label") != head.get("backend") else None
    return ", ".join((str(head["model_id"])[:120], str(named)[:60] if named else "vLLM", _traffic(head)))


def _sglang_label(head: Mapping[str, Any]) -> str:
    named, dataset = head.get("tag"), str(head.get("dataset_name"))[:60]
    given, tokens = (finite(head.get(f"random_{side}_len")) for side in ("input", "output"))
    if dataset.startswith("random") and given is not None and tokens is not None:
        dataset += f" {given:g}+{tokens:g}"
    name = str(named)[:60] if named else f"SGLang ({str(head['backend'])[:30]})"
    return ", ".join((name, dataset, _traffic(head)))


VLLM = Program(
    frozenset({"model_id", "completed", "request_throughput"}),
    ("model_id",),
    (
        *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate"),
        *("burstiness", "max_concurrency", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
    ),
    _vllm_label,
)
SGLANG = Program(
    frozenset({"backend", "completed", "total_output_tokens_retokenized", "accept_length"}),
    ("server_info", "model_path"),
    (
        *("tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len"),
        *("random_input_len", "random_output_len", "random_range_ratio"),
    ),
    _sglang_label,
    divides_gaps=True,
)


@dataclass
class _Benchmark:
    """One benchmark of a file. The first request takes `figures` of the whole benchmark."""

    label: str
    model: ModelFacts
    mode: str
    started_at: str | None
    first_row: int
    figures: dict[str, float] = field(default_factory=dict)


class ServingReading(Reading):
    """Each document is a benchmark with its settings and parallel lists of its requests."""

    reads_documents = True
    knows_infinity = True

    def __init__(self, preview: Preview, program: Program) -> None:
        super().__init__(preview)
        self._program = program
        self.covers, self.totals = COVERS, {TARGET: [FIRST, REST]}
        self.names = {FIRST: "TTFT", REST: "After the first token", WHOLE: "Latency"}
        self.config = {}
        self._benchmark: _Benchmark | None = None
        self._labels: dict[str, int] = {}
        self._requests = self._without_requests = 0

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        if place == DOCUMENTS:
            self._end()
            self._benchmark = self._begun(number, raw) if raw.keys() >= self._program.keys else None
            if self._benchmark is None:
                self.problems.of_file(f"Document {number + 1} is no benchmark of this kind and was left out")
        elif place == REQUESTS and self._benchmark is not None:
            self._requests += 1
            return [self._request(self._benchmark, number, raw)]
        return []

    def _end(self) -> None:
        self._without_requests += self._benchmark is not None and self._benchmark.first_row == self._requests

    def _begun(self, number: int, head: Mapping[str, Any]) -> _Benchmark:
        dot = "" if self.preview.documents == 1 else f"benchmark {number + 1}."
        self.config |= {f"{dot}{key}": head[key] for key in self._program.settings if head.get(key) is not None}
        label = self._program.label(head)
        self._labels[label] = count = self._labels.get(label, 0) + 1
        name: Any = head
        for key in self._program.model_keys:
            name = mapping(name).get(key)
        figures = _speculation(head)
        return _Benchmark(
            label if count == 1 else f"{label}, again ({count})",
            served_model(name),
            "speculative" if figures else "target",
            _date(head),
            self._requests,
            figures,
        )

    def _request(self, benchmark: _Benchmark, number: int, raw: Mapping[str, Any]) -> LegacyRow:
        check = TimeCheck(number, self.problems)
        gaps = check.all_ms("itls", raw.get("itls"), MS_PER_S)
        tokens = check.count("output_lens", raw.get("output_lens")) or None
        first, total, waited = (check.ms(key, raw.get(key), MS_PER_S) for key in ("ttfts", "latencies", "queue_times"))
        given = check.count("input_lens", raw.get("input_lens"))
        error = _request_error(raw)
        times = None if error is not None else check.answer(first, total, gaps, tokens)
        # No clock measures the very same time twice in a row.
        if self._program.divides_gaps and times and any(one == other > 0 for one, other in pairwise(gaps or ())):
            if times.token_times_ms:
                check.tell(CHUNKS)
            times = replace(times, token_times_ms=())
        row = request_row(
            check,
            times,
            error,
            given,
            tokens,
            sample=request_name(number - benchmark.first_row, given),
            mode=benchmark.mode,
            cell=benchmark.label,
            models={TARGET: benchmark.model},
            started_at=benchmark.started_at,
        )
        row.figures.update({"client_queue_ms": waited} if waited else {})
        if times is None:
            return row
        drafting, benchmark.figures = benchmark.figures, {}
        row.figures.update(drafting)
        text = raw.get("generated_texts")
        return replace(
            row,
            text=text if isinstance(text, str) and text else None,
            notes=(f"{OF_BENCHMARK}.",) if drafting else (),
        )

    def sentences(self) -> Sequence[str]:
        self._end()
        listed = [NETWORK] if self._requests else []
        if self._without_requests:
            listed.append(
                f"{count_text(self._without_requests, 'benchmark')} without times of single requests left out"
            )
        if self._requests and self._program.divides_gaps:
            listed.append(
                "Latencies of single requests are not in the file: a request ends with the last piece of its answer, a "
                "little before the latencies that the file averages"
            )
        return listed


def _request_error(raw: Mapping[str, Any]) -> str | None:
    error = raw.get("errors")
    if isinstance(error, str) and (text := error.strip()):
        return text.splitlines()[-1].strip() if text.startswith("Traceback") else text
    # A failed request has zeros from before it was sent. One that was not timed has an answer.
    measured = [finite(raw.get(key)) for key in ("ttfts", "latencies", "output_lens") if key in raw]
    return None if any(measured) else NO_REASON


def _speculation(head: Mapping[str, Any]) -> dict[str, float]:
    """The counts of drafts under our names; {} without speculation."""
    length = finite(head.get("accept_length"))
    if length is not None and length >= 1:
        return {"mean_acceptance_length": length}
    names = {
        "spec_decode_draft_tokens": "drafted_tokens",
        "spec_decode_accepted_tokens": "accepted_tokens",
        "spec_decode_num_drafts": "verified_rounds",
    }
    counts = {name: value for key, name in names.items() if (value := finite(head.get(key))) is not None}
    is_complete = len(counts) == len(names) and 0 <= counts["accepted_tokens"] <= counts["drafted_tokens"]
    return counts if is_complete and counts["verified_rounds"] > 0 else {}


def _date(head: Mapping[str, Any]) -> str | None:
    try:
        return datetime.strptime(str(head.get("date")), "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return None


def serving(preview: Preview, program: Program) -> ServingReading | None:
    is_known = any(head.keys() >= program.keys for head in preview.objects(DOCUMENTS))
    return ServingReading(preview, program) if is_known else None


# Batches of SGLang


_SIZES = ("batch_size", "input_len", "output_len")
_KINDS: dict[frozenset[str], tuple[str, str, tuple[str, ...]]] = {
    frozenset({*_SIZES, "prefill_latency", "total_latency"}): ("prefill_latency", "total_latency", ("prefill",)),
    frozenset({*_SIZES, "last_ttft", "latency"}): ("last_ttft", "latency", BEFORE),
}
"""Keys of a line of engine or server -> keys of the first token and of the total, and what the first covers."""

_Kind = tuple[str, str, tuple[str, ...]]


def _kind_of(raw: Mapping[str, Any]) -> _Kind | None:
    return next((kind for keys, kind in _KINDS.items() if keys <= raw.keys()), None)


class BatchReading(Reading):
    """Each document is a batch. All its prompts are answered together, so that it is one run."""

    reads_documents = True

    def __init__(self, preview: Preview, kinds: Sequence[_Kind]) -> None:
        super().__init__(preview)
        covers: dict[str, list[str]] = {}
        for first, total, stages in kinds:
            covers |= {first: [*stages], f"{total} - {first}": ["decode"]}
        self.covers, self.totals = {TARGET: covers}, {TARGET: list(covers)[:2]}
        self._is_served = any(stages == BEFORE for *_, stages in kinds)

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        kind = _kind_of(raw) if place == DOCUMENTS else None
        if kind is not None:
            return [self._row(number, raw, kind)]
        self.problems.of_row("a line is of no batch and was left out", number)
        return []

    def _row(self, number: int, raw: Mapping[str, Any], kind: _Kind) -> LegacyRow:
        first_key, total_key, stages = kind
        check = TimeCheck(number, self.problems)
        first, total = (check.ms(key, raw.get(key), MS_PER_S) for key in (first_key, total_key))
        batch, given, tokens = (check.count(key, raw.get(key)) for key in _SIZES)
        intervals: tuple[Interval, ...] = ()
        if first and total and total >= first:
            rest = Interval(f"{total_key} - {first_key}", ("decode",), total - first, TARGET)
            intervals = (Interval(first_key, stages, first, TARGET), rest)
        accepted, named = finite(raw.get("acc_length")), raw.get("run_name")
        is_drafted = accepted is not None and accepted >= 1
        figures = {
            "batch_size": batch,
            "input_sequence_length": given,
            "mean_acceptance_length": accepted if is_drafted else None,
        }
        name = f"{str(named)[:60]}, " if isinstance(named, str) and named not in ("", "default") else ""
        return LegacyRow(
            row=number,
            group=number,
            side="lines",
            role=TARGET,
            mode="speculative" if is_drafted else "target",
            cell=f"SGLang, {name}batch of {batch}, {given}+{tokens} tokens",
            sample=f"{given}+{tokens} tokens",
            models={TARGET: served_model(None)},
            prompt="",
            intervals=intervals,
            has_first_token_time=bool(intervals),
            output_tokens=tokens,
            figures={name: float(value) for name, value in figures.items() if value is not None},
            notes=() if batch == 1 else (f"Every pass served the {batch} prompts of a batch at once.",),
            error=None if intervals else NO_TIME,
        )

    def sentences(self) -> Sequence[str]:
        served = (NETWORK, "last_ttft is the first token of the batch's last prompt, so others came earlier")
        return ["Which model ran is not in the file", *(served if self._is_served else ())]


def batches(preview: Preview) -> BatchReading | None:
    kinds = [kind for raw in preview.objects(DOCUMENTS) if (kind := _kind_of(raw)) is not None]
    return BatchReading(preview, kinds) if kinds else None


# Records of AIPerf


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
_LAST_NS = 1 << 62


class RecordReading(Reading):
    """Each document is a request. Units are those of its metrics. Unknown fields are ignored."""

    reads_documents = True

    def __init__(self, preview: Preview) -> None:
        super().__init__(preview)
        self.covers, self.totals = COVERS, {TARGET: [FIRST, REST]}
        self.names = {FIRST: "TTFT", REST: "After the first token", WHOLE: "Request latency"}
        scratch = TimeCheck(0, FileProblems())
        has_drafts = any(_drafting(head, scratch)[0] for head in preview.objects(DOCUMENTS))
        self._mode = "speculative" if has_drafts else "target"

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        if place == DOCUMENTS and _is_record(raw):
            return [self._row(number, raw)]
        self.problems.of_row("a line is no record of a request and was left out", number)
        return []

    def _row(self, number: int, raw: Mapping[str, Any]) -> LegacyRow:
        metadata, metrics = mapping(raw["metadata"]), mapping(raw["metrics"])
        check = TimeCheck(number, self.problems)
        tokens, given, failed_given = (
            check.count(name, mapping(metrics.get(name)).get("value"))
            for name in ("output_sequence_length", "input_sequence_length", "error_isl")
        )
        given = given or failed_given
        first, total = (
            check.ms(name, *_timed(check, metrics, name)) for name in ("time_to_first_token", "request_latency")
        )
        gaps = check.all_ms("inter_chunk_latency", *_timed(check, metrics, "inter_chunk_latency"))
        error = _record_error(raw)
        times = check.answer(first, total, gaps, tokens) if error is None else None
        drafting, histogram = _drafting(raw, check) if times else ({}, {})
        name, turn = metadata.get("conversation_id"), finite(metadata.get("turn_index"))
        sample = f"{name}, turn {turn:g}" if turn else str(name)
        row = request_row(
            check,
            times,
            error,
            given,
            tokens,
            sample=sample if isinstance(name, str) and name else request_name(number, given),
            mode=self._mode,
            cell="AIPerf requests",
            models={TARGET: served_model(None)},
            is_warmup=metadata.get("benchmark_phase") == "warmup",
            accepted_histogram=histogram,
            started_at=_moment(metadata.get("request_start_ns")),
        )
        row.figures.update(drafting)
        return replace(row, is_cancelled=row.error is not None and metadata.get("was_cancelled") is True)

    def sentences(self) -> Sequence[str]:
        return [NETWORK, "Which model ran is not in the records; AIPerf's profile_export_aiperf.json says it"]


def _is_record(raw: Mapping[str, Any]) -> bool:
    metadata = raw.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata and isinstance(raw.get("metrics"), dict)


def records(preview: Preview) -> RecordReading | None:
    return RecordReading(preview) if any(_is_record(head) for head in preview.objects(DOCUMENTS)) else None


def _timed(check: TimeCheck, metrics: Mapping[str, Any], name: str) -> tuple[object, float]:
    """A metric's value and the factor to ms; no value if its unit is not of time."""
    metric = mapping(metrics.get(name))
    factor = UNITS_MS.get(str(metric.get("unit")))
    if metric and factor is None:
        check.tell(f"{name} is in a unit that is none of time, and was left out")
    return (None, 1.0) if factor is None else (metric.get("value"), factor)


def _record_error(raw: Mapping[str, Any]) -> str | None:
    error = raw.get("error")
    if error is None:
        return None
    parts = [str(text) for key in ("type", "message") if (text := mapping(error).get(key))]
    return ": ".join(dict.fromkeys(parts)) or NO_REASON


def _drafting(raw: Mapping[str, Any], check: TimeCheck) -> tuple[dict[str, float], dict[int, int]]:
    """Counts of speculation, and accepted tokens -> rounds; empty if they are missing or invalid."""
    own, metrics = mapping(raw.get("spec_decode_acceptance")), mapping(raw.get("metrics"))
    told = {name: own.get(key, mapping(metrics.get(tag)).get("value")) for name, (key, tag) in _COUNTS.items()}
    counts = {name: check.count(name, value) for name, value in told.items()}
    known = {name: float(value) for name, value in counts.items() if value is not None}
    if len(known) < len(counts) or known["accepted_tokens"] > known["drafted_tokens"]:
        if known:
            check.tell("the counts of drafted and accepted tokens contradict each other")
        return {}, {}
    histogram = {
        int(accepted): rounds
        for accepted, rounds in mapping(own.get("acceptance_histogram")).items()
        if accepted.isdecimal() and len(accepted) < 6 and isinstance(rounds, int) and not isinstance(rounds, bool)
    }
    is_complete = (
        all(0 <= accepted <= _MOST_ACCEPTED and 0 < rounds < _LAST_NS for accepted, rounds in histogram.items())
        and sum(histogram.values()) == known["verified_rounds"]
        and sum(accepted * rounds for accepted, rounds in histogram.items()) == known["accepted_tokens"]
    )
    if histogram and not is_complete:
        check.tell("acceptance_histogram does not add up to its record's counts")
    return known, histogram if is_complete else {}


def _moment(value: object) -> str | None:
    """A time in ns since 1970 as ISO 8601."""
    number = finite(value)
    if number is None or not 0 < number < _LAST_NS:
        return None
    return datetime.fromtimestamp(number / 1e9, UTC).isoformat()
