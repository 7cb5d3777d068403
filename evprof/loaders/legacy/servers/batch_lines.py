"""SGLang's benchmarks of one batch, a line each: `sglang.bench_one_batch` in the engine's process, and
`sglang.bench_one_batch_server` through a server.

All prompts of a batch are answered together, so a line is one run, whose every pass serves them all. Shapes:
python/sglang/bench_one_batch.py and bench_one_batch_server.py of https://github.com/sgl-project/sglang.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.core.records import TARGET
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, finite
from evprof.loaders.legacy.json_rows import DOCUMENTS, Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader
from evprof.loaders.legacy.rows import NO_TIME, Interval, LegacyRow
from evprof.loaders.legacy.servers.answers import BEFORE, NETWORK, TimeCheck, served_model

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
    """The family."""

    name = "SGLang one batch"
    looks_for = "batch_size with prefill_latency or last_ttft (sglang.bench_one_batch)"
    reads_documents = documents_are_rows = True

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the keys of a line."""
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
        """A line as a run."""
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
        """What such files measure and what they do not."""
        self._problems.of_file("Which model ran is not in the file")
        if self._is_served:
            self._problems.of_file(NETWORK)
            self._problems.of_file("last_ttft is the first token of the batch's last prompt, so others came earlier")
