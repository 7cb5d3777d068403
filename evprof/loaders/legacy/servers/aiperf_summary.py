"""AIPerf's statistics over all requests: `profile_export_aiperf.json`, as AIPerf writes it and `evprof export` does.

No request's own times are in it, so it makes no runs: `profile_export.jsonl` beside it has them. Shape:
docs/reference/json-export-schema.md of https://github.com/ai-dynamo/aiperf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evprof.core.units import count_text
from evprof.loaders.legacy.checks import finite, mapping
from evprof.loaders.legacy.reading import Preview, Published
from evprof.loaders.legacy.servers.answers import NETWORK
from evprof.loaders.legacy.summary import SummaryReader, known, ratio

_MOST = 2000
_WARMUP = "warmup_metrics"


class AiperfSummary(SummaryReader):
    """The family."""

    name = "AIPerf statistics"
    looks_for = "request_latency or request_count with a unit (AIPerf's profile_export_aiperf.json)"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its blocks."""
        return any("unit" in mapping(preview.head.get(name)) for name in ("request_latency", "request_count"))

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        told, computed = _blocks(head)
        warm, again = _blocks(mapping(head.get(_WARMUP)), f"{_WARMUP}.")
        histogram = mapping(head.get("pooled_spec_decode_acceptance_histogram"))
        pooled = {f"rounds that accepted {str(key)[:8]}": finite(value) for key, value in histogram.items()}
        told |= warm | known(pooled)
        config = {
            key: value
            for key in ("aiperf_version", "evprof_version", "benchmark_id", "start_time", "end_time", "was_cancelled")
            if isinstance(value := head.get(key), str | bool)
        }
        published = Published(told=dict(list(told.items())[:_MOST]), computed=computed | again, config=config)
        return published, (*_sentences(head), NETWORK)


def _blocks(values: Mapping[str, Any], dot: str = "") -> tuple[dict[str, float], dict[str, float]]:
    """Every number of every metric with its unit, and averages worked out from sums and counts."""
    told: dict[str, float] = {}
    computed: dict[str, float | None] = {}
    for name, block in values.items():
        unit = mapping(block).get("unit")
        if not isinstance(unit, str):
            continue
        numbers = known({key: finite(value) for key, value in block.items()})
        if "sum" in numbers and "count" in numbers:
            computed[f"{dot}{name[:80]}.avg ({unit[:40]})"] = ratio(numbers["sum"], numbers["count"])
        told |= {
            f"{dot}{name[:80]}.{key[:20]}" + ("" if key == "count" else f" ({unit[:40]})"): value
            for key, value in numbers.items()
        }
    return told, known(computed)


def _sentences(head: Mapping[str, Any]) -> list[str]:
    found = ["The times of single requests are in profile_export.jsonl beside the file; import that for their runs"]
    errors = head.get("error_summary")
    counted = [finite(mapping(entry).get("count")) or 0 for entry in errors] if isinstance(errors, list) else []
    if failed := sum(counted):
        found.append(f"{count_text(round(failed), 'request')} failed; what failed stands in no statistic")
    return found
