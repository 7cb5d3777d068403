"""Files that hold one serving benchmark, or several one after the other: settings and statistics, and on demand lists
of what was measured of every request. Of benchmarks without these lists the statistics are kept, and make no runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from typing import Any, ClassVar

from evprof.core.records import TARGET
from evprof.core.run_info import NOT_TOLD
from evprof.core.units import count_text
from evprof.loaders.legacy.checks import MS_PER_S, FileProblems, error_kind, finite, mapping, ratio
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


def answered(
    row: LegacyRow, check: TimeCheck, times: AnswerTimes | None, error: str | None, input_tokens: int | None
) -> LegacyRow:
    """The row of a request with its times, or with the reason why it failed."""
    error = error or (NO_TIME if times is None else None)
    figures = {} if input_tokens is None else {"input_sequence_length": float(input_tokens)}
    if error is not None or times is None:
        check.problems.of_row(f"failed requests: {error_kind(error or NO_TIME)}", check.row)
        return replace(row, output_tokens=None, figures=figures, error=error)
    return replace(
        row,
        intervals=times.intervals,
        token_times_ms=times.token_times_ms,
        has_first_token_time=times.has_first_token_time,
        figures=figures,
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
    keys: ClassVar[frozenset[str]]
    """Keys that all of its benchmarks have."""
    model_keys: ClassVar[tuple[str, ...]]
    """The keys that lead to the model's name."""
    settings: ClassVar[tuple[str, ...]]
    """Keys that are settings; of the other numbers the file is told by."""
    rows: ClassVar[dict[str, tuple[str, str]]]
    """Statistic -> key among a row's values, and its kind."""

    @classmethod
    def recognises(cls, preview: Preview) -> bool:
        return any(head.keys() >= cls.keys for head in preview.objects(DOCUMENTS))

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
            self._benchmark = self._begun(number, raw) if raw.keys() >= self.keys else None
            if self._benchmark is None:
                self._problems.of_file(f"Document {number + 1} is no benchmark of this kind and was left out")
        elif place == REQUESTS and self._benchmark is not None:
            return [self._request(self._benchmark, number, raw)]
        return []

    def _begun(self, number: int, head: Mapping[str, Any]) -> ServingBenchmark:
        is_one = self._preview.documents == 1
        dot = "" if is_one else f"benchmark {number + 1}."
        published = self.published
        told = {key: value for key in head if key not in self.settings and (value := finite(head[key])) is not None}
        told |= _accepted_shares(head)
        if len(self._told) < MOST_TOLD:
            self._told |= {f"{dot}{key[:80]}": value for key, value in told.items()}
            self._config |= {f"{dot}{key}": head[key] for key in self.settings if head.get(key) is not None}
        side = "requests" if is_one else f"benchmark {number + 1}"
        published.statistics |= {f"{dot}{name}": Statistic(side, *made) for name, made in self.rows.items()}
        computed = _computed(head).items()
        published.computed |= {f"{dot}{name}": value for name, value in computed if value is not None and name in told}
        if finite(head.get("completed")) == 0:
            zeros = {f"{dot}{key}" for key, value in told.items() if value == 0 and key.endswith("_ms")}
            published.over_nothing |= zeros
        label = self._label(head)
        self._labels[label] = place = self._labels.get(label, 0) + 1
        name: Any = head
        for key in self.model_keys:
            name = mapping(name).get(key)
        figures = _speculation(head)
        return ServingBenchmark(
            head=head,
            side=side,
            dot=dot,
            label=label if place == 1 else f"{label}, again ({place})",
            model=served_model(name),
            mode="speculative" if figures else "target",
            started_at=_started_at(head),
            first_row=self._listed,
            figures=figures,
        )

    def _close(self) -> None:
        """At the end of a benchmark: what follows from all of its requests."""
        found = self._benchmark
        if found is None:
            return
        # With speculation some backends divide gaps among the tokens before they average them.
        if found.gaps and found.head.get("accept_length") is None:
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
        error = self._error(raw)
        times = self._answer(check, benchmark, (first, total, gaps, tokens)) if error is None else None
        waited = check.ms("queue_times", raw.get("queue_times"), MS_PER_S)
        row = LegacyRow(
            row=number,
            group=number,
            side=benchmark.side,
            role=TARGET,
            mode=benchmark.mode,
            cell=benchmark.label,
            sample=request_name(number - benchmark.first_row, lent),
            models={TARGET: benchmark.model},
            prompt="",
            output_tokens=tokens,
            started_at=benchmark.started_at,
        )
        row = answered(row, check, times, error, lent)
        row.figures.update({"client_queue_ms": waited} if waited else {})
        if times is None:
            return row
        if gaps:
            benchmark.gaps, benchmark.gaps_ms = benchmark.gaps + len(gaps), benchmark.gaps_ms + sum(gaps)
        drafting, benchmark.figures = benchmark.figures, {}
        row.figures.update(drafting)
        text = raw.get("generated_texts")
        return replace(
            row,
            text=text if isinstance(text, str) and text else None,
            values=_values(first, total, tokens, lent),
            notes=(f"{OF_BENCHMARK}.",) if drafting else (),
        )

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

    def _label(self, head: Mapping[str, Any]) -> str:
        raise NotImplementedError

    def finish(self) -> None:
        self._close()
        if self._listed:
            self._problems.of_file(NETWORK)
        if self._without_rows:
            what = count_text(self._without_rows, "benchmark")
            self._problems.of_file(f"{what} without times of single requests: the statistics are kept, as no runs")


def _accepted_shares(head: Mapping[str, Any]) -> dict[str, float]:
    """Shares of accepted tokens by their position in a draft, which stand in a list."""
    key = "spec_decode_per_position_acceptance_rates"
    listed = head.get(key)
    rates = map(finite, listed[:64]) if isinstance(listed, list) else ()
    return {f"{key}.{place}": rate for place, rate in enumerate(rates, start=1) if rate is not None}


def _computed(head: Mapping[str, Any]) -> dict[str, float | None]:
    """Statistics that follow from others."""
    duration, accepted = head.get("duration"), head.get("spec_decode_accepted_tokens")
    share = ratio(accepted, head.get("spec_decode_draft_tokens"))
    each = ratio(accepted, head.get("spec_decode_num_drafts"))
    return {
        "request_throughput": ratio(head.get("completed"), duration),
        "output_throughput": ratio(head.get("total_output_tokens"), duration),
        "input_throughput": ratio(head.get("total_input_tokens"), duration),
        # The file gives its share of accepted tokens in percent.
        "spec_decode_acceptance_rate": None if share is None else 100 * share,
        "spec_decode_acceptance_length": None if each is None else 1 + each,
    }


def _speculation(head: Mapping[str, Any]) -> dict[str, float]:
    """The counts of drafts under our names; empty without speculation."""
    length = finite(head.get("accept_length"))
    if length is not None and length >= 1:
        return {"mean_acceptance_length": length}
    names = {
        "spec_decode_draft_tokens": "drafted_tokens",
        "spec_decode_accepted_tokens": "accepted_tokens",
        "spec_decode_num_drafts": "verified_rounds",
    }
    found = {name: value for key, name in names.items() if (value := finite(head.get(key))) is not None}
    is_whole = len(found) == len(names) and 0 <= found["accepted_tokens"] <= found["drafted_tokens"]
    return found if is_whole and found["verified_rounds"] > 0 else {}


def _started_at(head: Mapping[str, Any]) -> str | None:
    try:
        return datetime.strptime(str(head.get("date")), "%Y%m%d-%H%M%S").isoformat()
    except ValueError:
        return None


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


class VllmServing(ServingReader):
    name = "vLLM serving benchmark"
    looks_for = "model_id with completed and request_throughput (vllm bench serve)"
    keys = frozenset({"model_id", "completed", "request_throughput"})
    model_keys = ("model_id",)
    settings = (
        *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate"),
        *("burstiness", "max_concurrency", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
    )
    rows: ClassVar = {
        "completed": ("one", "sum"),
        "total_input_tokens": ("input", "sum"),
        "total_output_tokens": ("output", "sum"),
        **{f"mean_{name}_ms": (f"{name}_ms", "avg") for name in ("ttft", "tpot", "e2el")},
        **{f"std_{name}_ms": (f"{name}_ms", "std") for name in ("ttft", "tpot", "e2el")},
    }

    def _label(self, head: Mapping[str, Any]) -> str:
        # Without a name of its own a benchmark is labelled by its backend.
        named = head.get("label") if head.get("label") != head.get("backend") else None
        parts = (str(head["model_id"])[:120], str(named)[:60] if named else "vLLM", traffic(head))
        return ", ".join(parts)
