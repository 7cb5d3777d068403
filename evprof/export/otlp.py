"""Figures as OpenTelemetry metrics in OTLP's JSON: one line for each session, as its collector reads files.

Figures that the conventions for generative AI have a name for are histograms under that name, in seconds and tokens,
with the bounds these advise, over the runs of a configuration. All others are gauges `evprof.KEY` with a point for each
run. Warm-ups, profiled runs and runs that did not finish are left out, and cold ones where there are warm ones.
Names, units and bounds: gen-ai-metrics.md of OpenTelemetry's semantic conventions (status: development); the JSON:
opentelemetry-proto, where 64-bit integers are texts.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.files.whole_file import whole_file
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.units import NS_PER_MS, count_text
from evprof.core.vocabulary.figures import FIGURES, Figure
from evprof.export.chrome_trace import epoch_ns
from evprof.metrics.comparison.figures import READERS
from evprof.metrics.configurations.gathering import configuration_key
from evprof.metrics.figures.stages import END_TO_END, wall_ms
from evprof.version import __version__

if TYPE_CHECKING:
    from evprof.export.report.data import Source

_CUMULATIVE = 2
"""AGGREGATION_TEMPORALITY_CUMULATIVE."""

_UNITS = {"ms": "ms", "tok/s": "{token}/s", "tokens": "{token}", "bytes": "By", "J": "J", "W": "W", "": "1"}
"""Ours as UCUM has them."""

_REQUESTED = {"max_tokens": "max_new_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k"}
"""Attributes `gen_ai.request.NAME`, and the settings they tell."""

BOUNDS: dict[str, tuple[float, ...]] = {
    "gen_ai.client.operation.duration": tuple(0.01 * 2**power for power in range(14)),
    "gen_ai.client.token.usage": tuple(float(4**power) for power in range(14)),
    "gen_ai.server.time_to_first_token": (
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25),
        *(0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    ),
    "gen_ai.server.time_per_output_token": (
        *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3),
        *(0.4, 0.5, 0.75, 1.0, 2.5),
    ),
}
"""Upper bounds of the buckets of each histogram."""


@dataclass(frozen=True)
class _Taken:
    """What is kept of a run: its info, when it ran in ns since 1970, and its figures."""

    info: RunInfo
    start_ns: int
    end_ns: int
    values: dict[str, float]


def write_otlp(sources: Iterable[Source], path: Path, *, tell: Callable[[str], object] | None = None) -> list[Path]:
    """Writes a line for each session; returns the file. Raises OSError.

    `tell` is given a sentence for what is left out.
    """
    left_out = 0
    with whole_file(path) as stream:
        for source in sources:
            taken, others = _taken(source)
            left_out += others
            stream.write(json.dumps(_document(source, taken), ensure_ascii=False, allow_nan=False) + "\n")
    if left_out and tell is not None:
        tell(f"{count_text(left_out, 'run')} that stand in no figure left out: warm-ups, profiled, cold or unfinished.")
    return [path]


def _taken(source: Source) -> tuple[list[_Taken], int]:
    """The runs that stand in figures, and how many others there are."""
    found: list[_Taken] = []
    count = 0
    for run in source.runs:
        count += 1
        info = run.info
        if info.status == FINISHED and not (info.warmup or info.profiled):
            start_ns = epoch_ns(info.started_at)
            values = {key: value for key in FIGURES if (value := _value(run, key)) is not None}
            found.append(_Taken(info, start_ns, start_ns + round((wall_ms(run) or 0) * NS_PER_MS), values))
    warm = {configuration_key(one.info) for one in found if not one.info.is_cold}
    kept = [one for one in found if not one.info.is_cold or configuration_key(one.info) not in warm]
    return kept, count - len(kept)


def _value(run: RunLog, key: str) -> float | None:
    return READERS[key](run, run.info.role, END_TO_END)


def _document(source: Source, taken: list[_Taken]) -> dict[str, Any]:
    metrics: dict[str, dict[str, Any]] = {}
    for figure in FIGURES.values():
        points = [one for one in taken if figure.key in one.values]
        if not points:
            continue
        if figure.otel:
            listed = _histogram(metrics, figure)
            listed += _histogram_points(figure, points)
        else:
            metrics[figure.key] = {
                "name": f"evprof.{figure.key}",
                "description": figure.tip,
                "unit": _UNITS[figure.unit],
                "gauge": {"dataPoints": [_gauge_point(figure, one) for one in points]},
            }
    scope = {"name": "evprof", "version": __version__}
    resource = {"service.name": "evprof", "evprof.session": source.name or None}
    device = source.environment.get("device")
    resource |= {"host.cpu.model.name": device if isinstance(device, str) else None}
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeMetrics": [{"scope": scope, "metrics": list(metrics.values())}],
            }
        ]
    }


def _histogram(metrics: dict[str, dict[str, Any]], figure: Figure) -> list[dict[str, Any]]:
    """The points of a figure's histogram, which two figures may share: tokens in and tokens out."""
    made = metrics.setdefault(
        figure.otel,
        {
            "name": figure.otel,
            "description": figure.tip if figure.unit == "ms" else "tokens of the prompt and of the answer",
            "unit": "s" if figure.unit == "ms" else "{token}",
            "histogram": {"dataPoints": [], "aggregationTemporality": _CUMULATIVE},
        },
    )
    points: list[dict[str, Any]] = made["histogram"]["dataPoints"]
    return points


def _histogram_points(figure: Figure, taken: list[_Taken]) -> Iterator[dict[str, Any]]:
    """A point for each configuration."""
    groups: dict[object, list[_Taken]] = {}
    for one in taken:
        groups.setdefault(configuration_key(one.info), []).append(one)
    bounds = BOUNDS[figure.otel]
    for group in groups.values():
        values = [one.values[figure.key] / (1000 if figure.unit == "ms" else 1) for one in group]
        counts = [0] * (len(bounds) + 1)
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        yield {
            "attributes": _attributes(_told(group[0].info) | dict(figure.otel_attributes)),
            "startTimeUnixNano": str(min(one.start_ns for one in group)),
            "timeUnixNano": str(max(one.end_ns for one in group)),
            "count": str(len(values)),
            "sum": sum(values),
            "min": min(values),
            "max": max(values),
            "bucketCounts": [str(count) for count in counts],
            "explicitBounds": list(bounds),
        }


def _gauge_point(figure: Figure, one: _Taken) -> dict[str, Any]:
    value = one.values[figure.key]
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}
    told = _told(one.info) | {"evprof.run_id": one.info.run_id}
    return {"attributes": _attributes(told), "timeUnixNano": str(one.end_ns), **number}


def _told(info: RunInfo) -> dict[str, Any]:
    """What tells configurations apart; what nobody set or knows is left out."""
    model = info.models.get(info.role)
    given = info.given_settings
    return {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "evprof",
        "gen_ai.request.model": model.name if model else None,
        **{f"gen_ai.request.{name}": given.get(key) for name, key in _REQUESTED.items()},
        "evprof.mode": info.mode,
        "evprof.role": info.role,
        "evprof.cell": info.cell or None,
        "evprof.group_id": info.group_id,
    }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in values.items() if value is not None]


def _any_value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}
