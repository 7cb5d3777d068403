"""Files that hold one serving benchmark, or several one after the other: settings and statistics, and on demand lists
of what was measured of every request. Of benchmarks without these lists the statistics are kept, and make no runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from evprof.core.records import TARGET
from evprof.core.units import count_text
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, finite, ratio
from evprof.loaders.legacy.failures import error_kind
from evprof.loaders.legacy.json_rows import DOCUMENTS, REQUESTS, Place
from evprof.loaders.legacy.reading import Preview, Published, RowReader, Statistic
from evprof.loaders.legacy.rows import NO_TIME, LegacyModel, LegacyRow
from evprof.loaders.legacy.servers.answers import (
    COVERS,
    FIRST,
    NETWORK,
    REST,
    WHOLE,
    AnswerTimes,
    TimeCheck,
    request_name,
    served_model,
)

MOST_TOLD = 4000
"""Statistics that are kept of one file."""

NO_REASON = "the file says that this request failed, and not why"

OF_BENCHMARK = (
    "What was drafted and accepted is counted by the server over the whole benchmark; it stands with this request only"
)


@dataclass
class ServingBenchmark:
    """One benchmark of a file. `side` and `dot` are how its statistics are called beside those of others."""

    head: Mapping[str, Any]
    side: str
    dot: str
    label: str
    model: LegacyModel
    mode: str
    started_at: str | None
    first_row: int
    figures: dict[str, float] = field(default_factory=dict)
    gaps: int = 0
    gaps_ms: float = 0.0
    requests: int = 0


class ServingReader(RowReader):
    """Reads such files; a family says what its program calls things."""

    reads_documents = True
    settings: ClassVar[tuple[str, ...]]
    """Keys that are settings; of the other numbers the file is told by."""
    rows: ClassVar[dict[str, tuple[str, str]]]
    """Statistic -> key among a row's values, and its kind."""

    def __init__(self, preview: Preview, problems: FileProblems) -> None:
        super().__init__(preview, problems)
        self.covers = COVERS
        self._told: dict[str, float] = {}
        self._config: dict[str, Any] = {}
        self.published = Published(
            totals={TARGET: [FIRST, REST]},
            names={FIRST: "TTFT", REST: "After the first token", WHOLE: "Latency"},
            told=self._told,
            config=self._config,
        )
        self._benchmark: ServingBenchmark | None = None
        self._labels: dict[str, int] = {}
        self._without_rows = self._listed = 0

    def read(self, place: Place, number: int, raw: Any) -> list[LegacyRow]:
        """The settings and statistics of a benchmark are kept; a request is a run."""
        if place == DOCUMENTS:
            self._close()
            self._benchmark = self._begun(number, raw) if self._is_benchmark(raw) else None
            if self._benchmark is None:
                self._problems.of_file(f"Document {number + 1} is no benchmark of this kind and was left out")
        elif place == REQUESTS and self._benchmark is not None:
            return [self._request(self._benchmark, number, raw)]
        return []

    @staticmethod
    def _is_benchmark(head: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def _begun(self, number: int, head: Mapping[str, Any]) -> ServingBenchmark:
        is_one = self._preview.documents == 1
        dot = "" if is_one else f"benchmark {number + 1}."
        published = self.published
        told = {key: value for key in head if key not in self.settings and (value := finite(head[key])) is not None}
        told |= self._more_told(head)
        if len(self._told) < MOST_TOLD:
            self._told |= {f"{dot}{key[:80]}": value for key, value in told.items()}
            self._config |= {f"{dot}{key}": head[key] for key in self.settings if head.get(key) is not None}
        side = "requests" if is_one else f"benchmark {number + 1}"
        published.statistics |= {f"{dot}{name}": Statistic(side, *made) for name, made in self.rows.items()}
        computed = self._computed(head).items()
        published.computed |= {f"{dot}{name}": value for name, value in computed if value is not None and name in told}
        if finite(head.get("completed")) == 0:
            zeros = {f"{dot}{key}" for key, value in told.items() if value == 0 and key.endswith("_ms")}
            published.over_nothing |= zeros
        label = self._label(head)
        self._labels[label] = place = self._labels.get(label, 0) + 1
        return ServingBenchmark(
            head=head,
            side=side,
            dot=dot,
            label=label if place == 1 else f"{label}, again ({place})",
            model=served_model(self._model_name(head)),
            mode="speculative" if self._speculation(head) else "target",
            started_at=self._started_at(head),
            first_row=self._listed,
            figures=self._speculation(head),
        )

    def _close(self) -> None:
        """At the end of a benchmark: what follows from all of its requests."""
        found = self._benchmark
        if found is None:
            return
        if found.gaps and self._are_gaps_told(found.head):
            self.published.computed[f"{found.dot}mean_itl_ms"] = found.gaps_ms / found.gaps
        self._without_rows += not found.requests
        self._benchmark = None

    def _request(self, benchmark: ServingBenchmark, number: int, raw: Mapping[str, Any]) -> LegacyRow:
        self._listed += 1
        benchmark.requests += 1
        check = TimeCheck(number, self._problems)
        gaps = check.all_ms("itls", raw.get("itls"), MS_PER_S)
        tokens = check.count("output_lens", raw.get("output_lens")) or None
        first = check.ms("ttfts", raw.get("ttfts"), MS_PER_S)
        total = check.ms("latencies", raw.get("latencies"), MS_PER_S)
        lent = check.count("input_lens", raw.get("input_lens"))
        error, times = self._error(raw), None
        if error is None:
            times = self._answer(check, benchmark, (first, total, gaps, tokens))
            error = NO_TIME if times is None else None
        if error is not None:
            self._problems.of_row(f"failed requests: {error_kind(error)}", number)
        waited = check.ms("queue_times", raw.get("queue_times"), MS_PER_S)
        figures = {} if lent is None else {"input_sequence_length": float(lent)}
        figures |= {} if not waited else {"client_queue_ms": waited}
        text = raw.get("generated_texts")
        row = self._row(benchmark, number, figures)
        if times is None:
            return LegacyRow(**row, error=error)
        if gaps:
            benchmark.gaps, benchmark.gaps_ms = benchmark.gaps + len(gaps), benchmark.gaps_ms + sum(gaps)
        drafting, benchmark.figures = benchmark.figures, {}
        return LegacyRow(
            **{**row, "figures": figures | drafting},
            intervals=times.intervals,
            token_times_ms=times.token_times_ms,
            has_first_token_time=times.has_first_token_time,
            output_tokens=tokens,
            text=text if isinstance(text, str) and text else None,
            values=_values(first, total, tokens, lent),
            notes=(f"{OF_BENCHMARK}.",) if drafting else (),
        )

    def _row(self, benchmark: ServingBenchmark, number: int, figures: dict[str, float]) -> dict[str, Any]:
        lent = figures.get("input_sequence_length")
        return {
            "row": number,
            "group": number,
            "side": benchmark.side,
            "role": TARGET,
            "mode": benchmark.mode,
            "cell": benchmark.label,
            "sample": request_name(number - benchmark.first_row, None if lent is None else int(lent)),
            "models": {TARGET: benchmark.model},
            "prompt": "",
            "figures": figures,
            "started_at": benchmark.started_at,
        }

    def _answer(
        self,
        check: TimeCheck,
        benchmark: ServingBenchmark,
        told: tuple[float | None, float | None, tuple[float, ...] | None, int | None],
    ) -> AnswerTimes | None:
        return check.answer(*told)

    def _error(self, raw: Mapping[str, Any]) -> str | None:
        error = raw.get("errors")
        if isinstance(error, str) and (said := error.strip()):
            # Of a traceback the last line says what happened.
            return said.splitlines()[-1].strip() if said.startswith("Traceback") else said
        # A request that failed has its zeros from before it was sent.
        measured = [finite(raw.get(key)) for key in ("ttfts", "latencies") if key in raw]
        return None if any(measured) else NO_REASON

    @staticmethod
    def _more_told(head: Mapping[str, Any]) -> dict[str, float]:
        """Statistics that are no plain numbers."""
        return {}

    @staticmethod
    def _computed(head: Mapping[str, Any]) -> dict[str, float | None]:
        """Statistics that follow from others."""
        duration = head.get("duration")
        return {
            "request_throughput": ratio(head.get("completed"), duration),
            "output_throughput": ratio(head.get("total_output_tokens"), duration),
            "input_throughput": ratio(head.get("total_input_tokens"), duration),
        }

    @staticmethod
    def _speculation(head: Mapping[str, Any]) -> dict[str, float]:
        """What is told of drafts, under our names; empty without speculation."""
        raise NotImplementedError

    @staticmethod
    def _model_name(head: Mapping[str, Any]) -> object:
        raise NotImplementedError

    @staticmethod
    def _label(head: Mapping[str, Any]) -> str:
        raise NotImplementedError

    @staticmethod
    def _started_at(head: Mapping[str, Any]) -> str | None:
        return None

    @staticmethod
    def _are_gaps_told(head: Mapping[str, Any]) -> bool:
        """Whether the file's mean gap is that of the gaps it lists."""
        return True

    def finish(self) -> None:
        self._close()
        if self._listed:
            self._problems.of_file(NETWORK)
        if self._without_rows:
            what = count_text(self._without_rows, "benchmark")
            self._problems.of_file(f"{what} without times of single requests: the statistics are kept, as no runs")


def _values(first: float | None, total: float | None, tokens: int | None, lent: int | None) -> dict[str, float]:
    """A request's numbers as its benchmark averages them."""
    per_token = (total - first) / (tokens - 1) if first and total and tokens and tokens > 1 else None
    found = {"ttft_ms": first, "e2el_ms": total, "tpot_ms": per_token, "output": tokens, "input": lent}
    return {"one": 1.0} | {name: float(value) for name, value in found.items() if value is not None}


def traffic(head: Mapping[str, Any]) -> str:
    """How requests were sent: `4 requests/s`, `at most 8 at once`."""
    rate, most = finite(head.get("request_rate")), finite(head.get("max_concurrency"))
    parts = [] if rate is None else [f"{rate:g} requests/s"]
    parts += ["as in a trace"] if head.get("request_rate") == "trace" else []
    parts += [] if most is None else [f"at most {most:g} at once"]
    return ", ".join(parts) or "all at once"
