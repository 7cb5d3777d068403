"""SGLang's serving benchmark: `python -m sglang.bench_serving --output-file`, a line for each benchmark.

Shape and definitions: python/sglang/bench_serving.py, later benchmark/serving.py, of
https://github.com/sgl-project/sglang. With `--output-details` a line holds lists of single requests, without their
latencies: a request ends with its last piece there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from evprof.loaders.legacy.checks import finite, mapping
from evprof.loaders.legacy.json_rows import DOCUMENTS
from evprof.loaders.legacy.reading import Preview
from evprof.loaders.legacy.servers.answers import CHUNKS, AnswerTimes, TimeCheck
from evprof.loaders.legacy.servers.serving import ServingBenchmark, ServingReader, traffic

_KEYS = frozenset({"backend", "completed", "total_output_tokens_retokenized", "accept_length"})


class SglangServing(ServingReader):
    """The family."""

    name = "SGLang serving benchmark"
    looks_for = "total_output_tokens_retokenized with accept_length (sglang.bench_serving)"
    settings = (
        *("tag", "backend", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len"),
        *("random_input_len", "random_output_len", "random_range_ratio"),
    )
    rows: ClassVar = {
        "completed": ("one", "sum"),
        "total_output_tokens": ("output", "sum"),
        "mean_ttft_ms": ("ttft_ms", "avg"),
        "std_ttft_ms": ("ttft_ms", "std"),
    }

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its keys, in any of the first benchmarks."""
        return any(SglangServing._is_benchmark(head) for head in preview.objects(DOCUMENTS))

    @staticmethod
    def _is_benchmark(head: Mapping[str, Any]) -> bool:
        return head.keys() >= _KEYS

    @staticmethod
    def _label(head: Mapping[str, Any]) -> str:
        named = head.get("tag")
        dataset = str(head.get("dataset_name"))[:60]
        lent, tokens = (finite(head.get(f"random_{side}_len")) for side in ("input", "output"))
        if dataset.startswith("random") and lent is not None and tokens is not None:
            dataset += f" {lent:g}+{tokens:g}"
        parts = (str(named)[:60] if named else f"SGLang ({str(head['backend'])[:30]})", dataset, traffic(head))
        return ", ".join(parts)

    @staticmethod
    def _model_name(head: Mapping[str, Any]) -> object:
        return mapping(head.get("server_info")).get("model_path")

    @staticmethod
    def _speculation(head: Mapping[str, Any]) -> dict[str, float]:
        length = finite(head.get("accept_length"))
        return {"mean_acceptance_length": length} if length is not None and length >= 1 else {}

    @staticmethod
    def _are_gaps_told(head: Mapping[str, Any]) -> bool:
        # With speculation some backends' gaps are divided among the tokens before they are averaged.
        return head.get("accept_length") is None

    def _begun(self, number: int, head: Mapping[str, Any]) -> ServingBenchmark:
        # A rate without end is written as Infinity.
        self.understood += "request_rate" in head and head["request_rate"] is None
        return super()._begun(number, head)

    def _answer(
        self,
        check: TimeCheck,
        benchmark: ServingBenchmark,
        told: tuple[float | None, float | None, tuple[float, ...] | None, int | None],
    ) -> AnswerTimes | None:
        found = check.answer(*told)
        if found is not None and found.token_times_ms and _is_divided(told[2] or ()):
            check.problems.of_row(CHUNKS, check.row)
            return replace(found, token_times_ms=())
        return found

    def finish(self) -> None:
        """What such files measure and what they do not."""
        super().finish()
        if self._listed:
            self._problems.of_file(
                "Latencies of single requests are not in the file: a request ends with the last piece of its answer, a "
                "little before the latencies that the file averages"
            )


def _is_divided(gaps_ms: tuple[float, ...]) -> bool:
    """Whether gaps were divided among the tokens of a piece: no clock measures the very same time twice in a row."""
    return any(one == other > 0 for one, other in pairwise(gaps_ms))
