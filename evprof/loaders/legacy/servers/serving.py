"""Files that hold one serving benchmark, or several one after the other: settings and statistics, and on demand lists
of what was measured of every request. Of benchmarks without these lists the statistics are kept, and make no runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, ClassVar

from evprof.core.records import TARGET
from evprof.core.run_info import NOT_TOLD
from evprof.core.units import count_text
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, finite, ratio
from evprof.loaders.legacy.failures import error_kind
from evprof.loaders.legacy.json_rows import DOCUMENTS, REQUESTS, Place
from evprof.loaders.legacy.reading import Covers, Preview, Published, RowReader, Statistic
from evprof.loaders.legacy.rows import NO_TIME, Interval, LegacyModel, LegacyRow

BEFORE = ("preprocess", "vision", "prefill")
"""What happens before a first token is sent. Of a request without pictures there is no vision in it."""

FIRST, REST, WHOLE = "ttft", "latency - ttft", "latency"

COVERS: Covers = {TARGET: {FIRST: [*BEFORE], REST: ["decode"], WHOLE: [*BEFORE, "decode"]}}
"""What the times of a request cover; `latency` stands for both where the first token has no time of its own."""

LONGEST_MS = 6 * 3600 * 1000.0
"""Clients give up after so long, so nothing longer was measured."""

NETWORK = (
    "Times are the client's: the time to the first token counts from sending the request, so it holds the network, "
    "waiting in the server's queue and, beside others' requests, waiting for them; loading is no part of it"
)

IN_ONE_PIECE = "the answer came in one piece, so its first token has no time of its own"

CHUNKS = "pieces of several tokens came, so that not every token has a time of its own; gaps are between pieces"


@dataclass(frozen=True)
class AnswerTimes:
    """The times of one answer; `token_times_ms` is () unless every token has its own."""

    intervals: tuple[Interval, ...]
    token_times_ms: tuple[float, ...] = ()
    has_first_token_time: bool = False


def served_model(name: object) -> LegacyModel:
    """A model behind a server: its name is all that clients know."""
    return LegacyModel(name[:200] if isinstance(name, str) and name else NOT_TOLD, "", "")


@dataclass
class TimeCheck:
    """Reads the times of one row in ms; tells what cannot be one."""

    row: int
    problems: FileProblems

    def ms(self, name: str, value: object, factor: float = 1.0) -> float | None:
        """A time of at least 0 in ms, from `value` times `factor`; None, and told unless null, for what is none."""
        if value is None:
            return None
        number = finite(value)
        if number is None or not 0 <= number * factor <= LONGEST_MS:
            self.problems.of_row(f"{name} is no time, and was left out", self.row)
            return None
        return number * factor

    def all_ms(self, name: str, values: object, factor: float = 1.0) -> tuple[float, ...] | None:
        """A list of times; None, and told, when one of them is none."""
        if values is None:
            return None
        listed = values if isinstance(values, list) else [None]
        found = [None if value is None else self.ms(name, value, factor) for value in listed]
        known = tuple(value for value in found if value is not None)
        if len(known) < len(found):
            self.problems.of_row(f"{name} is no list of times, and was left out", self.row)
            return None
        return known

    def count(self, name: str, value: object) -> int | None:
        """A whole number of at least 0; None, and told unless it is null, for everything else."""
        number = finite(value)
        if value is not None and (number is None or number != int(number) or not 0 <= number < 1 << 40):
            self.problems.of_row(f"{name} is no count, and was left out", self.row)
            return None
        return None if number is None else int(number)

    def answer(
        self, first_ms: float | None, total_ms: float | None, gaps_ms: Sequence[float] | None, tokens: int | None
    ) -> AnswerTimes | None:
        """The answer's times; None when nothing was measured. Without a latency it ends with its last piece.

        A first token of 0 ms was never timed; one that came with all the others has no time of its own.
        """
        if total_ms is None and first_ms:
            total_ms = first_ms + sum(gaps_ms or ())
        if not total_ms:
            return None
        if first_ms and first_ms > total_ms:
            self.problems.of_row("the first token comes after the last one, and has no time therefore", self.row)
            first_ms = None
        came_together = first_ms == total_ms and tokens != 1
        if came_together:
            self.problems.of_row(IN_ONE_PIECE, self.row)
        if not first_ms or came_together:
            return AnswerTimes((Interval(WHOLE, (*BEFORE, "decode"), total_ms, TARGET),))
        parts = (Interval(FIRST, BEFORE, first_ms, TARGET), Interval(REST, ("decode",), total_ms - first_ms, TARGET))
        times: tuple[float, ...] = ()
        if gaps_ms is not None and tokens == len(gaps_ms) + 1:
            times = tuple(accumulate(gaps_ms, initial=first_ms))
        elif gaps_ms is not None and tokens is not None:
            self.problems.of_row(CHUNKS, self.row)
        return AnswerTimes(parts, times, has_first_token_time=True)


def request_name(number: int, input_tokens: int | None) -> str:
    """How a request is told from others where it has no name: by its place and its length."""
    return f"request {number}" if input_tokens is None else f"request {number}, {input_tokens} tokens"


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
