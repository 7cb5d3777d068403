"""A run and a session as the JSON that the command line prints (its keys are a contract; see docs/json.md).

Everything is read from a RunLog, finished or not; what was not measured is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from evprof.core.plain import SCHEMA_VERSION
from evprof.core.records import DRAFT, STAGES, TARGET, AlternativesRecord, BatchRow, TensorRecord
from evprof.core.rows.spans import Span
from evprof.core.run_info import ModelFacts, RunInfo, SetupFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.metrics.configurations.baselines import baseline_of, engine_session
from evprof.metrics.configurations.gathering import by_sample, sample_key
from evprof.metrics.configurations.parts import parts_document
from evprof.metrics.costs.sweeps import visual_document
from evprof.metrics.figures import decoding, kv_cache, stages
from evprof.metrics.figures.energy import energy_document, is_throttled, throttled_devices
from evprof.metrics.figures.kv_cache import loading_document
from evprof.metrics.figures.scores import scores_document
from evprof.metrics.speculation.outcome import acceptance
from evprof.metrics.speculation.verdicts import speculation_document
from evprof.version import __version__

_T = TypeVar("_T")

_MODEL_KEYS = (
    "name",
    "family",
    "model_type",
    "parameters",
    "weight_bytes",
    "dtype",
    "device",
    "quantization",
    "content",
)
SETTINGS_KEYS = (
    "max_new_tokens",
    "ignore_eos",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "frames",
    "event_frames",
)
"""Settings of every run, in the order of documents and tables; others are told where they count."""


class StreamedList(list[Any]):
    """Looks like a list of `count` entries to `json.dump`, which reads it once; each is made when its turn comes."""

    def __init__(self, count: int, entries: Callable[[], Iterable[Any]]) -> None:
        super().__init__()
        self._count = count
        self._entries = entries

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(self._entries())


def session_document(
    runs: Iterable[RunLog],
    environment: dict[str, Any] | None = None,
    others: Iterable[RunLog] | None = None,
    batches: Iterable[BatchRow] = (),
    *,
    marks: Sequence[Mapping[str, Any]] = (),
    is_streamed: bool = False,
) -> dict[str, Any]:
    """The document of a session; `environment` defaults to that of the latest run that has one.

    `others` are the runs that speculation is weighed against, the listed ones by default;
    `marks` are the session's, as plain values.

    `is_streamed`: its `runs` are made while they are written.
    """
    listed = list(runs)
    known = by_sample(listed if others is None else others)

    def documents() -> Iterator[dict[str, Any]]:
        return (run_document(run, known.get(sample_key(run), ())) for run in listed)

    if environment is None:
        environment = next((run.info.environment for run in reversed(listed) if run.info.environment), {})
    return {
        "schema_version": SCHEMA_VERSION,
        "evprof_version": __version__,
        "environment": environment,
        "runs": StreamedList(len(listed), documents) if is_streamed else list(documents()),
        "time_by_part": parts_document(listed),
        "batches": [row.to_json() for row in batches],
        "marks": list(marks),
    }


def run_document(run: RunLog, others: Sequence[RunLog] = ()) -> dict[str, Any]:
    """One run as plain JSON values: identity, models, stages, tokens, metrics, memory, cache, speculation.

    Speculation is weighed against the plain runs among `others`.
    """
    info = run.info
    named = [token for token in run.tokens if token.known_id is not None]
    return {
        "run_id": info.run_id,
        "group_id": info.group_id,
        "name": info.name,
        "note": info.note,
        "repeat": info.repeat,
        "turn": info.turn.to_json() if info.turn else None,
        "role": info.role,
        "mode": info.mode,
        "status": info.status,
        "error": info.error,
        "warmup": info.warmup,
        "profiled": info.profiled,
        "cold": info.is_cold,
        "engine_session": engine_session(info) or None,
        "baseline": {"run_ids": list(found.run_ids)} if (found := baseline_of(run, others)) else None,
        "started_at": info.started_at,
        "warnings": list(info.warnings),
        "trace_path": info.trace_path,
        "snapshot_path": info.snapshot_path,
        "cell": info.cell,
        "imported": info.imported.to_json() if info.imported else None,
        "model": _model(info.models.get(info.role)),
        "settings": _settings(run),
        "sample": _sample(info),
        "setup": info.setup.get(info.role, SetupFacts()).to_json(),
        "stages": _stages(run, info.role),
        "loading": loading_document(run, info.role),
        "unattributed_ms": stages.unattributed_ms(run),
        "wall_ms": stages.wall_ms(run),
        "token_times_ms": decoding.token_times_ms(run),
        "metrics": metrics_document(run),
        "memory": info.memory.to_json(),
        "energy": energy_document(run),
        "throttling": throttled_devices(run),
        "throttled": is_throttled(run),
        "clocks": {device: facts.to_json() for device, facts in info.clocks.items()},
        "kv_cache": _kv_cache(run, info.role),
        "visual_costs": visual_document(run),
        "draft": _draft(run),
        "speculation": speculation_document(run, others),
        "text": decoding.answer_text(run),
        "accuracy": scores_document(run),
        "token_ids": [token.token_id for token in named],
        "token_pieces": [token.piece for token in named],
        "token_origin": [token.origin for token in named],
        "token_entropy_bits": _of_tokens(run, lambda record: record.entropy_bits),
        "token_alternatives": _of_tokens(run, _alternatives),
    }


def _of_tokens(run: RunLog, told: Callable[[AlternativesRecord], _T]) -> list[_T | None] | None:
    """Something of every token of the answer; None where no run recorded what else was likely."""
    if not run.alternatives:
        return None
    records = [run.alternatives_of(token) for token in run.tokens]
    return [None if record is None else told(record) for record in records]


def _alternatives(record: AlternativesRecord) -> list[dict[str, Any]]:
    return [{"id": one.token_id, "piece": one.piece, "probability": one.chance} for one in record.listed]


def metrics_document(run: RunLog) -> dict[str, float | int | None]:
    # No file of a server measures the load.
    basis = stages.END_TO_END if run.info.imported is None else stages.WITHOUT_LOAD
    length = decoding.answer_length if run.info.imported is None else decoding.output_length
    return {
        "time_to_first_token_ms": decoding.time_to_first_token_ms(run, basis),
        "inter_token_latency_ms": decoding.inter_token_latency_ms(run),
        "input_sequence_length": decoding.input_length(run),
        "output_sequence_length": length(run),
        "visual_tokens": decoding.visual_tokens(run),
        "prefill_throughput_tok_s": decoding.prefill_throughput_tok_s(run),
        "decode_throughput_tok_s": decoding.decode_throughput_tok_s(run),
    }


def _model(facts: ModelFacts | None) -> dict[str, Any] | None:
    if facts is None:
        return None
    # What is not told of a model behind a server is "" or 0.
    return {key: None if (value := getattr(facts, key)) in ("", 0) else value for key in _MODEL_KEYS}


def _settings(run: RunLog) -> dict[str, Any]:
    model = run.info.models.get(run.info.role)
    given, asked = run.info.given_settings, run.info.settings
    settings: dict[str, Any] = {key: given.get(key) for key in SETTINGS_KEYS}
    if acceptance(run) is not None:
        settings["gamma"] = given.get("gamma")
    settings |= {key: given[key] for key in (*vars(asked.input), *vars(asked.switches)) if key in given}
    if mode_of(run.info.mode).is_paired and run.info.imported is None:
        settings["speculation"] = asked.speculation.to_json()
    for key in ("prompt_template", "attention", "cache", "step", "vision_pass"):
        # What was taken stands before what was asked for.
        settings[key] = getattr(model, key) if model else settings.get(key)
    return settings


def _sample(info: RunInfo) -> dict[str, Any]:
    facts: dict[str, Any] = info.sample.facts()
    if info.imported is not None and facts["video"] is not None:
        del facts["video"]["offset_ms"]  # which result files do not tell
    return facts


def _kv_cache(run: RunLog, role: str) -> dict[str, Any]:
    facts = run.info.kv.get(role)
    return {
        "measured_bytes": facts.measured_bytes if facts else None,
        "formula_bytes": kv_cache.formula_bytes(run, role),
        "stored_bytes": facts.stored_bytes if facts else None,
        "reserved_bytes": facts.reserved_bytes if facts else None,
        "per_layer_bytes": list(facts.per_layer_bytes) if facts else [],
        "layout": facts.layout.to_json() if facts and facts.layout else None,
        "by_origin": {
            **kv_cache.bytes_by_origin(run, role),
            "visual_per_frame": kv_cache.visual_bytes_per_frame(run, role),
        },
    }


def _draft(run: RunLog) -> dict[str, Any] | None:
    """The other model's part of a speculative run; None elsewhere."""
    if run.info.role != TARGET or DRAFT not in run.info.models:
        return None
    return {
        "model": _model(run.info.models[DRAFT]),
        "setup": run.info.setup.get(DRAFT, SetupFacts()).to_json(),
        "stages": _stages(run, DRAFT),
        "loading": loading_document(run, DRAFT),
        "kv_cache": _kv_cache(run, DRAFT),
        "visual_costs": visual_document(run, DRAFT),
        "input_sequence_length": decoding.input_length(run, DRAFT),
        "visual_tokens": decoding.visual_tokens(run, DRAFT),
    }


def _stages(run: RunLog, role: str) -> list[dict[str, Any]]:
    if not run.has_spans() and run.kept is not None:
        return _kept_stages(run, role)
    by_parent: dict[int, list[Span]] = {}
    for span in sorted(run.spans.values(), key=lambda span: span.start_ns):
        by_parent.setdefault(span.parent_id, []).append(span)
    return [
        {"name": span.stage_name, "covers": list(span.covers)}
        | _span(run, span)
        | {"children": [_child(run, child, by_parent) for child in by_parent.get(span.span_id, ())]}
        for span in run.stages(role)
    ]


def _kept_stages(run: RunLog, role: str) -> list[dict[str, Any]]:
    """The stages of a run whose rows were dropped: how long they took is left of them."""
    nothing: dict[str, Any] = {"inputs": [], "outputs": [], "children": []}
    return [
        {"name": name, "covers": [name], "start_ms": None, "duration_ms": duration, **nothing}
        for name in STAGES
        if (duration := stages.stage_ms(run, name, role)) is not None
    ]


def _child(run: RunLog, span: Span, by_parent: dict[int, list[Span]]) -> dict[str, Any]:
    parts = {"name": span.name} | _span(run, span)
    if below := by_parent.get(span.span_id):
        parts["children"] = [_child(run, child, by_parent) for child in below]
    return parts


def _span(run: RunLog, span: Span) -> dict[str, Any]:
    return {
        "start_ms": stages.start_ms(run, span.start_ns),
        "duration_ms": stages.span_ms(span),
        "inputs": [_tensor(record) for record in span.tensors if record.direction == "in"],
        "outputs": [_tensor(record) for record in span.tensors if record.direction == "out"],
    }


def _tensor(record: TensorRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "shape": [int(part) for part in record.shape.split(",") if part.strip()],
        "dtype": record.dtype,
        "bytes": record.nbytes,
    }
