"""Runs as AIPerf's files: a record for each request in `profile_export.jsonl`, and their statistics in
`profile_export_aiperf.json`, with AIPerf's names and units.

A run is a request, and a configuration a benchmark with both files; of several, each has a folder. As for a server,
whose model lies ready, a request's time begins when the model is loaded. What is left out: rates over a whole
benchmark, since the runs of a configuration need not follow one another, and runs under a profiler.
Names, units and definitions: docs/metrics-reference.md and docs/reference/json-export-schema.md of
https://github.com/ai-dynamo/aiperf, schema 1.4.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_file
from evprof.core.run_info import CANCELLED, FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_MS, count_text, ms_from_ns
from evprof.export.chrome_trace import epoch_ns
from evprof.metrics.arithmetic.statistics import summarize
from evprof.metrics.configurations.gathering import configuration_key
from evprof.metrics.figures import decoding, stages
from evprof.metrics.figures.stages import WITHOUT_LOAD
from evprof.metrics.speculation.outcome import Acceptance, acceptance, accepted_histogram
from evprof.version import __version__

if TYPE_CHECKING:
    from evprof.export.report.data import Source

SUMMARY, RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"

SCHEMA = "1.4"

PROFILING, WARMUP = "profiling", "warmup"

Value = float | int | list[float]


@dataclass(frozen=True)
class Metric:
    """A figure of one request: AIPerf's unit, and how it is read off a run; None where the run has none."""

    unit: str
    read: Callable[[RunLog], Value | None]


def request_latency_ms(run: RunLog) -> float | None:
    """From the loaded model to the last token."""
    if run.info.imported is not None:
        return stages.total_ms(run, WITHOUT_LOAD)
    return stages.total_ms(run, WITHOUT_LOAD, run.tokens[-1].t_ns) if run.tokens else None


def _first_token_ms(run: RunLog) -> float | None:
    return decoding.time_to_first_token_ms(run, WITHOUT_LOAD)


def _chunk_gaps_ms(run: RunLog) -> list[float] | None:
    """Times between chunks: the tokens that one round of speculation brought came together."""
    times = dict.fromkeys(token.t_ns for token in decoding.timed_tokens(run))
    return [ms_from_ns(after - before) for before, after in pairwise(times)] or None


def _per_second(count: float | None, duration_ms: float | None) -> float | None:
    return 1000 * count / duration_ms if count and duration_ms else None


def _counted(read: Callable[[Acceptance], float | None]) -> Callable[[RunLog], float | None]:
    """A figure of the rounds; None of a run without any."""

    def of(run: RunLog) -> float | None:
        counts = acceptance(run)
        return read(counts) if counts is not None and counts.rounds else None

    return of


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


METRICS = {
    "input_sequence_length": Metric("tokens", decoding.input_length),
    "output_sequence_length": Metric("tokens", decoding.output_length),
    "output_token_count": Metric("tokens", decoding.output_length),
    "request_latency": Metric("ms", request_latency_ms),
    "time_to_first_token": Metric("ms", _first_token_ms),
    "time_to_second_token": Metric("ms", lambda run: next(iter(_chunk_gaps_ms(run) or ()), None)),
    "inter_token_latency": Metric("ms", decoding.inter_token_latency_ms),
    "inter_chunk_latency": Metric("ms", _chunk_gaps_ms),
    "output_token_throughput_per_user": Metric(
        "tokens/sec/user", lambda run: _per_second(1, decoding.inter_token_latency_ms(run))
    ),
    "prefill_throughput_per_user": Metric(
        "tokens/sec/user", lambda run: _per_second(decoding.input_length(run), _first_token_ms(run))
    ),
    "spec_decode_acceptance_length": Metric("ratio", _counted(lambda counts: counts.mean_acceptance_length)),
    "spec_decode_draft_acceptance_rate": Metric("%", _counted(lambda counts: _percent(counts.draft_acceptance_rate))),
    "spec_decode_accepted_per_verified": Metric(
        "ratio", _counted(lambda counts: (counts.accepted + counts.rounds) / (counts.drafted + counts.rounds))
    ),
    "spec_decode_steps": Metric("count", _counted(lambda counts: counts.rounds)),
    "spec_decode_accepted_draft_tokens": Metric("tokens", _counted(lambda counts: counts.accepted)),
    "spec_decode_draft_tokens": Metric("tokens", _counted(lambda counts: counts.drafted)),
}

TOTALS = {
    "total_isl": "input_sequence_length",
    "total_osl": "output_sequence_length",
    "total_output_tokens": "output_token_count",
    "total_spec_decode_steps": "spec_decode_steps",
    "total_accepted_draft_tokens": "spec_decode_accepted_draft_tokens",
    "total_draft_tokens": "spec_decode_draft_tokens",
}
"""AIPerf's sums over all requests, and what they sum up."""


def write_aiperf(
    sources: Iterable[Source], folder: Path, *, many: bool = False, tell: Callable[[str], object] | None = None
) -> list[Path]:
    """Writes both files of every configuration; returns them. Only one run is in memory at a time.

    Of one session with one configuration they lie in the folder itself, otherwise in one each, numbered and named.
    `tell` is given a sentence for what is left out. Raises OSError, and UserError where there is no run to write.
    """
    found: list[Path] = []
    number = profiled = 0
    for source in sources:
        infos = [run.info for run in source.runs]
        profiled += sum(info.profiled for info in infos)
        listed = _benchmarks(infos)
        for places in listed:
            number += 1
            name = re.sub(r"[^\w.-]+", "-", _label(infos[places[0]])).strip("-.")[:60]
            at = folder / f"{number:03}-{name}" if many or len(listed) > 1 else folder
            found += _write_benchmark(source, {place: infos[place] for place in places}, at, number - 1)
    if profiled and tell is not None:
        tell(f"{count_text(profiled, 'run')} under a profiler, which slows everything down, left out.")
    if not found:
        raise UserError("There is no run that AIPerf's files could tell of.")
    return found


def _benchmarks(infos: Sequence[RunInfo]) -> list[list[int]]:
    """The places of each configuration's runs; of a row that was begun more than once only the last attempt."""
    last = {info.row: place for place, info in enumerate(infos)}
    found: dict[object, list[int]] = {}
    for place in sorted(last.values()):
        if not infos[place].profiled:
            found.setdefault(configuration_key(infos[place]), []).append(place)
    return list(found.values())


def _label(info: RunInfo) -> str:
    model = info.models.get(info.role)
    return " ".join(dict.fromkeys((info.cell or f"run {info.run_id}", info.mode, model.name if model else info.role)))


def _write_benchmark(source: Source, infos: dict[int, RunInfo], folder: Path, index: int) -> list[Path]:
    """Writes both files of the runs at these places."""
    folder.mkdir(parents=True, exist_ok=True)
    # As in every figure of ours: where warm runs are, those that paid for loading are none of them.
    is_all_cold = all(info.is_cold for info in infos.values() if not info.warmup)
    benchmark = _Benchmark(next(iter(infos.values())), source.name, index)
    paths = [folder / RECORDS, folder / SUMMARY]
    with whole_file(paths[0]) as stream:
        for number, place in enumerate(infos):
            run = source.runs[place]
            is_warmup = run.info.warmup or (run.info.is_cold and not is_all_cold)
            record = benchmark.take(run, number, WARMUP if is_warmup else PROFILING)
            stream.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
    with whole_file(paths[1]) as stream:
        stream.write(json.dumps(benchmark.document(), ensure_ascii=False, allow_nan=False, indent=2) + "\n")
    return paths


@dataclass
class _Phase:
    """What requests of one phase measured: every value of every metric, and how often a round accepted so many."""

    values: dict[str, array[float]] = field(default_factory=lambda: {name: array("d") for name in METRICS})
    histogram: Counter[int] = field(default_factory=Counter)
    requests: int = 0

    def take(self, measured: dict[str, Value], run: RunLog) -> None:
        self.requests += 1
        self.histogram.update(accepted_histogram(run))
        for name, value in measured.items():
            self.values[name].extend(value if isinstance(value, list) else [value])

    def blocks(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """AIPerf's block of every metric that any request has."""
        for name, values in self.values.items():
            if values:
                yield name, _block(METRICS[name].unit, values)
        for name, of in TOTALS.items():
            if self.values[of]:
                yield name, {"unit": METRICS[of].unit, "avg": math.fsum(self.values[of])}
        rounds, drafted, accepted = (
            math.fsum(self.values[name])
            for name in ("spec_decode_steps", "spec_decode_draft_tokens", "spec_decode_accepted_draft_tokens")
        )
        if rounds:
            length = Acceptance(rounds=int(rounds), accepted=int(accepted)).mean_acceptance_length
            yield "spec_decode_token_weighted_acceptance_length", {"unit": "ratio", "avg": length}
        if drafted:
            rate = Acceptance(drafted=int(drafted), accepted=int(accepted)).draft_acceptance_rate
            yield "spec_decode_overall_draft_acceptance_rate", {"unit": "%", "avg": _percent(rate)}


def _block(unit: str, values: array[float]) -> dict[str, Any]:
    summary = summarize(values)
    assert summary is not None
    found = {"unit": unit, "avg": summary.mean, "min": summary.minimum, "max": summary.maximum}
    found |= {f"p{percent}": value for percent, value in summary.percentiles.items()}
    found |= {} if summary.std is None else {"std": summary.std}
    return found | {"count": summary.count, "sum": math.fsum(values)}


class _Benchmark:
    def __init__(self, info: RunInfo, session: str, index: int) -> None:
        self._info = info
        self._session = session
        self._index = index
        self._phases = {PROFILING: _Phase(), WARMUP: _Phase()}
        self._errors: Counter[tuple[str, str]] = Counter()
        self._times: list[int] = []

    def take(self, run: RunLog, number: int, phase: str) -> dict[str, Any]:
        """Takes a run in; its record."""
        start_ns, end_ns = _moments(run)
        if epoch_ns(run.info.started_at):
            self._times = [min([start_ns, *self._times]), max([end_ns, *self._times])]
        is_cancelled = run.info.status == CANCELLED
        record: dict[str, Any] = {
            "metadata": {
                "session_num": number,
                "x_request_id": str(run.run_id),
                "conversation_id": run.info.sample.name or None,
                "turn_index": 0,
                "request_start_ns": start_ns,
                "request_ack_ns": None,
                "request_end_ns": end_ns,
                "worker_id": "evprof",
                "record_processor_id": "evprof",
                "benchmark_phase": phase,
                "was_cancelled": is_cancelled,
                "cancellation_time_ns": end_ns if is_cancelled else None,
            }
        }
        if run.info.status != FINISHED:
            message = run.info.error or run.info.status
            error = {"code": None, "type": run.info.status, "message": message}
            length = decoding.input_length(run)
            metrics = {} if length is None else {"error_isl": {"value": length, "unit": "tokens"}}
            if phase == PROFILING:
                self._errors[run.info.status, message] += 1
            return record | {"metrics": metrics, "error": error}
        measured = {name: value for name, metric in METRICS.items() if (value := metric.read(run)) is not None}
        self._phases[phase].take(measured, run)
        values = {name: {"value": value, "unit": METRICS[name].unit} for name, value in measured.items()}
        return record | {"metrics": values, "error": None} | _speculation(run)

    def document(self) -> dict[str, Any]:
        kept, warmups = self._phases[PROFILING], self._phases[WARMUP]
        failed = sum(self._errors.values())
        seed = self._info.given_settings.get("seed")
        found: dict[str, Any] = {
            "schema_version": SCHEMA,
            "evprof_version": __version__,
            "benchmark_id": f"{self._session}#{self._info.run_id}",
            "request_count": {"unit": "requests", "avg": float(kept.requests)},
            **({"error_request_count": {"unit": "requests", "avg": float(failed)}} if failed else {}),
            **dict(kept.blocks()),
            "run_info": {
                "benchmark_id": f"{self._session}#{self._info.run_id}",
                "random_seed": seed if isinstance(seed, int) and seed >= 0 else None,
                "run_label": _label(self._info),
                "variation_label": self._info.cell or "base",
                "variation_index": self._index,
                "variation_values": self._info.given_settings,
            },
            "was_cancelled": any(kind == CANCELLED for kind, _ in self._errors),
            "error_summary": [
                {"error_details": {"code": None, "type": kind, "message": message}, "count": count}
                for (kind, message), count in self._errors.items()
            ],
        }
        if self._times:
            found |= {"start_time": _iso(self._times[0]), "end_time": _iso(self._times[1])}
        if warmups.requests:
            found["warmup_metrics"] = dict(warmups.blocks())
        if kept.histogram:
            found["pooled_spec_decode_acceptance_histogram"] = _histogram(kept.histogram)
        return found


def _speculation(run: RunLog) -> dict[str, Any]:
    """AIPerf's neutral record of what speculation did to a request; nothing of a run without rounds."""
    counts = acceptance(run)
    if counts is None or not counts.rounds:
        return {}
    gamma = run.info.given_settings.get("gamma")
    found = {
        "engine": "evprof",
        "mean_acceptance_length": counts.mean_acceptance_length,
        "draft_acceptance_rate": counts.draft_acceptance_rate or 0.0,
        "acceptance_histogram": _histogram(accepted_histogram(run)),
        "num_accepted_draft_tokens": counts.accepted,
        "num_draft_tokens": counts.drafted,
        "num_spec_steps": counts.rounds,
    }
    return {"spec_decode_acceptance": found | ({"num_spec_tokens": gamma} if isinstance(gamma, int) else {})}


def _histogram(counted: Counter[int]) -> dict[str, int]:
    return {str(accepted): counted[accepted] for accepted in sorted(counted)}


def _moments(run: RunLog) -> tuple[int, int]:
    """When a request began and ended, in ns since 1970: its end less its latency, so that loading is no part of it."""
    zero = epoch_ns(run.info.started_at)
    length_ns = 0 if run.info.start_ns is None else max(0, run.last_sign_ns - run.info.start_ns)
    if run.tokens and run.info.start_ns is not None and run.info.imported is None and run.info.status == FINISHED:
        length_ns = run.tokens[-1].t_ns - run.info.start_ns
    latency_ms = request_latency_ms(run) if run.info.status == FINISHED else None
    taken_ns = length_ns if latency_ms is None else min(length_ns, round(latency_ms * NS_PER_MS))
    return zero + length_ns - taken_ns, zero + length_ns


def _iso(moment_ns: int) -> str:
    return datetime.fromtimestamp(moment_ns / 1e9, UTC).isoformat()
