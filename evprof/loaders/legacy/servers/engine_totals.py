"""vLLM's benchmarks without a server: `vllm bench latency --output-json` and `vllm bench throughput --output-json`.

Both hold figures of whole batches, of which no request's time can be told, so they make no runs. Shapes:
vllm/benchmarks/latency.py and throughput.py of https://github.com/vllm-project/vllm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evprof.loaders.legacy.checks import finite, mapping
from evprof.loaders.legacy.json_rows import REQUESTS, Place
from evprof.loaders.legacy.reading import Preview, Published, StepSeries
from evprof.loaders.legacy.rows import LegacyRow
from evprof.loaders.legacy.summary import MOST_STEPS, SummaryReader, known, ratio


class VllmLatency(SummaryReader):
    """Times of one batch, again and again."""

    name = "vLLM latency benchmark"
    looks_for = "avg_latency with percentiles (vllm bench latency)"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its average."""
        return "avg_latency" in preview.head and isinstance(preview.head.get("percentiles"), dict)

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        told = {key: head.get(key) for key in ("avg_latency", "std_latency")}
        told |= {f"percentiles.{str(key)[:20]}": value for key, value in mapping(head["percentiles"]).items()}
        self._latencies: list[float] = []
        return Published(told=known({name: finite(value) for name, value in told.items()})), (
            "A latency is of a whole batch, from its prompts to all of its answers, in s; how many answers and of what "
            "length the file does not say, so its iterations are no runs",
        )

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """No runs; iterations are kept for `finish`."""
        value = finite(raw.get("latencies")) if place == REQUESTS else None
        if value is not None and number < MOST_STEPS:
            self._latencies.append(value)
        return []

    def finish(self) -> None:
        """The average again, and what the times are of."""
        if values := self._latencies:
            mean = math.fsum(values) / len(values)
            spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
            self.published.computed |= {"avg_latency": mean, "std_latency": spread}
            self.published.series = StepSeries("iteration", {"latencies": list(values)})
        super().finish()


class VllmThroughput(SummaryReader):
    """Tokens per second of many requests at once."""

    name = "vLLM throughput benchmark"
    looks_for = "elapsed_time with total_num_tokens (vllm bench throughput)"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its total."""
        return {"elapsed_time", "num_requests", "total_num_tokens"} <= preview.head.keys()

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        elapsed = head.get("elapsed_time")
        computed = {
            "requests_per_second": ratio(head.get("num_requests"), elapsed),
            "tokens_per_second": ratio(head.get("total_num_tokens"), elapsed),
        }
        told = known({str(key)[:80]: finite(value) for key, value in head.items()})
        return Published(told=told, computed=known(computed)), (
            "tokens_per_second counts the prompts' tokens with those of the answers; all requests ran together",
        )
