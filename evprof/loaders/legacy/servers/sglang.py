"""SGLang's benchmarks of one batch, a line each (`sglang.bench_one_batch` and `sglang.bench_one_batch_server`), and of
serving: `python -m sglang.bench_serving --output-file`, a line for each benchmark.

Shape and definitions: python/sglang/bench_serving.py, later benchmark/serving.py, of
https://github.com/sgl-project/sglang. With `--output-details` a line holds lists of single requests, without their
latencies: a request ends with its last piece there. All
prompts of a batch are answered together, so such a line is one run, whose every pass serves them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

from evprof.core.records import TARGET
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, finite
from evprof.loaders.legacy.json_rows import DOCUMENTS, Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader
from evprof.loaders.legacy.rows import NO_TIME, Interval, LegacyRow
from evprof.loaders.legacy.servers.serving import (
    BEFORE,
    CHUNKS,
    NETWORK,
    AnswerTimes,
    ServingBenchmark,
    ServingReader,
    TimeCheck,
    served_model,
    traffic,
)

_SIZES = ("batch_size", "input_len", "output_len")
_KINDS: dict[frozenset[str], tuple[str, str, tuple[str, ...]]] = {
    frozenset({*_SIZES, "prefill_latency", "total_latency"}): ("prefill_latency", "total_latency", ("prefill",)),
    frozenset({*_SIZES, "last_ttft", "latency"}): ("last_ttft", "latency", BEFORE),
}
"""Keys of a line, of the engine itself or of a server -> that of the first token, that of everything, and what the
first covers."""


_Kind = tuple[str, str, tuple[str, ...]]


def _kind_of(raw: Mapping[str, Any]) -> _Kind | None:
    return next((kind for keys, kind in _KINDS.items() if keys <= raw.keys()), None)


class SglangBatches(RowReader):
    name = "SGLang one batch"
    looks_for = "batch_size with prefill_latency or last_ttft (sglang.bench_one_batch)"
    reads_documents = documents_are_rows = True

    @staticmethod
    def recognises(preview: Preview) -> bool:
        return any(map(_kind_of, preview.objects(DOCUMENTS)))

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        kinds = [kind for kind in map(_kind_of, preview.objects(DOCUMENTS)) if kind is not None]
        covers: dict[str, list[str]] = {}
        for first, total, stages in kinds:
            covers |= {first: [*stages], f"{total} - {first}": ["decode"]}
        self.covers = {TARGET: covers}
        self.published = Published(totals={TARGET: list(covers)[:2]}, told={})
        self._is_served = any(stages == BEFORE for *_, stages in kinds)

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        kind = _kind_of(raw) if place == DOCUMENTS else None
        if kind is not None:
            return [self._row(number, raw, kind)]
        self._problems.of_row("a line is of no batch and was left out", number)
        return []

    def _row(self, number: int, raw: Mapping[str, Any], kind: _Kind) -> LegacyRow:
        first_key, total_key, stages = kind
        check = TimeCheck(number, self._problems)
        first, total = (check.ms(key, raw.get(key), MS_PER_S) for key in (first_key, total_key))
        batch, lent, tokens = (check.count(key, raw.get(key)) for key in _SIZES)
        intervals: tuple[Interval, ...] = ()
        if first and total and total >= first:
            rest = Interval(f"{total_key} - {first_key}", ("decode",), total - first, TARGET)
            intervals = (Interval(first_key, stages, first, TARGET), rest)
        accepted = finite(raw.get("acc_length"))
        figures = {"batch_size": batch, "input_sequence_length": lent}
        named = raw.get("run_name")
        name = f"{str(named)[:60]}, " if isinstance(named, str) and named not in ("", "default") else ""
        return LegacyRow(
            row=number,
            group=number,
            side="lines",
            role=TARGET,
            mode="speculative" if accepted and accepted >= 1 else "target",
            cell=f"SGLang, {name}batch of {batch}, {lent}+{tokens} tokens",
            sample=f"{lent}+{tokens} tokens",
            models={TARGET: served_model(None)},
            prompt="",
            intervals=intervals,
            has_first_token_time=bool(intervals),
            output_tokens=tokens,
            figures={name: float(value) for name, value in figures.items() if value is not None}
            | ({"mean_acceptance_length": accepted} if accepted and accepted >= 1 else {}),
            notes=() if batch == 1 else (f"Every pass served the {batch} prompts of a batch at once.",),
            error=None if intervals else NO_TIME,
        )

    def finish(self) -> None:
        self._problems.of_file("Which model ran is not in the file")
        if self._is_served:
            self._problems.of_file(NETWORK)
            self._problems.of_file("last_ttft is the first token of the batch's last prompt, so others came earlier")


class SglangServing(ServingReader):
    name = "SGLang serving benchmark"
    looks_for = "total_output_tokens_retokenized with accept_length (sglang.bench_serving)"
    keys = frozenset({"backend", "completed", "total_output_tokens_retokenized", "accept_length"})
    model_keys = ("server_info", "model_path")
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

    def _label(self, head: Mapping[str, Any]) -> str:
        named = head.get("tag")
        dataset = str(head.get("dataset_name"))[:60]
        lent, tokens = (finite(head.get(f"random_{side}_len")) for side in ("input", "output"))
        if dataset.startswith("random") and lent is not None and tokens is not None:
            dataset += f" {lent:g}+{tokens:g}"
        parts = (str(named)[:60] if named else f"SGLang ({str(head['backend'])[:30]})", dataset, traffic(head))
        return ", ".join(parts)

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
        super().finish()
        if self._listed:
            self._problems.of_file(
                "Latencies of single requests are not in the file: a request ends with the last piece of its answer, a "
                "little before the latencies that the file averages"
            )


def _is_divided(gaps_ms: tuple[float, ...]) -> bool:
    """Whether gaps were divided among the tokens of a piece: no clock measures the very same time twice in a row."""
    return any(one == other > 0 for one, other in pairwise(gaps_ms))
