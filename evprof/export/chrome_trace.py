"""Runs as Chrome Trace Events, for Perfetto, chrome://tracing, TensorBoard and whatever else reads that format.

One process per run; one thread per role for stages and their parts, one each for rounds, tokens, rejected tokens and
pictures; counters for KV cache and memory; arrows from prefill to decode and from drafts to their verification. Settled
spans only; what has no place in the trace is counted under `otherData.left_out`. Entries are made one run at a time.
Format: "Trace Event Format" (ph X, C, i, s, f, M; µs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evprof.core.run_log import RunLog
from evprof.core.units import count_text
from evprof.export.trace_entries import Entry, TracePlace, run_entries
from evprof.export.trace_slices import BEFORE_ZERO, THREADS, UNSETTLED
from evprof.version import __version__

if TYPE_CHECKING:
    from evprof.export.report.data import Source

__all__ = ["THREADS", "ChromeTrace", "left_out_sentences"]

_UNBORN, _UNBORN_RECORDS, _UNTIMED = "runs_without_a_start", "records_of_those_runs", "tokens_without_times"

LEFT_OUT = (_UNBORN, _UNBORN_RECORDS, UNSETTLED, BEFORE_ZERO, _UNTIMED)
"""What the trace cannot show, counted."""

_GAP_NS = 1_000_000
"""Between two runs that are laid end to end."""


_KINDS = {"X": "slices", "C": "counters", "i": "instants", "s": "flows", "f": "", "M": ""}
"""What entries are counted as; of an arrow, its beginning."""


class ChromeTrace:
    """A trace in the making. `head` and `tail` are its fields before and after `traceEvents`.

    `as_steps`: as PyTorch's profiler writes it, for tools that look for that: runs laid end to end, each a numbered
    step, spans as operators. Otherwise every run begins at 0, as in the window.
    """

    def __init__(self, sources: Iterable[Source], *, as_steps: bool = False, names_sessions: bool = False) -> None:
        self._sources = sources
        self._as_steps = as_steps
        self._names_sessions = names_sessions
        self._left_out: Counter[str] = Counter()
        self._runs = 0
        self._counts: Counter[str] = Counter()
        self._started_at = ""
        self._environment: dict[str, Any] = {}

    @property
    def head(self) -> dict[str, Any]:
        """Known before any run is read."""
        if not self._as_steps:
            return {"displayTimeUnit": "ms"}
        return {
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "record_shapes": 1,
            "with_stack": 0,
            "profile_memory": 0,
            "distributedInfo": {"backend": "", "rank": 0, "world_size": 1},
        }

    def entries(self) -> Iterator[Entry]:
        """Every entry, run after run. Runs whose zero is unknown have no place in time: left out, and counted."""
        first_pid, end_ns = 0, 0
        for source in self._sources:
            self._environment = self._environment or source.environment
            last_pid = first_pid
            session = source.name
            for run in source.runs:
                last_pid = max(last_pid, first_pid + run.run_id)
                if run.info.start_ns is None:
                    self._left_out[_UNBORN] += 1
                    self._left_out[_UNBORN_RECORDS] += _record_count(run)
                    continue
                self._note(run)
                place = TracePlace(
                    pid=first_pid + run.run_id,
                    session=session,
                    names_session=self._names_sessions,
                    offset_ns=end_ns if self._as_steps else 0,
                    step=first_pid + run.run_id if self._as_steps else None,
                )
                made, length_ns = run_entries(run, run.info.start_ns, place, self._left_out)
                self._counts.update(_KINDS[entry["ph"]] for entry in made)
                self._counts["slices"] -= self._as_steps
                end_ns += length_ns + _GAP_NS
                yield from made
            first_pid = last_pid

    @property
    def tail(self) -> dict[str, Any]:
        """What is known once every entry was taken."""
        clock = "runs are laid end to end, 1 ms apart" if self._as_steps else "each run begins at its own zero"
        other = {
            "producer": f"evprof {__version__}",
            "clock": clock,
            "runs": self._runs,
            **{kind: self._counts[kind] for kind in ("slices", "counters", "instants", "flows")},
            "left_out": {key: self._left_out[key] for key in LEFT_OUT},
        }
        if not self._as_steps:
            return {"otherData": other}
        return {
            "deviceProperties": _device_properties(self._environment),
            "baseTimeNanoseconds": epoch_ns(self._started_at),
            "traceName": "evprof",
            "otherData": other,
        }

    def _note(self, run: RunLog) -> None:
        self._runs += 1
        self._started_at = self._started_at or run.info.started_at
        self._environment = self._environment or run.info.environment
        if not run.info.has_token_times:
            self._left_out[_UNTIMED] += len(run.tokens) + len(run.rejected)


def left_out_sentences(document: dict[str, Any]) -> list[str]:
    """What a person should hear about the parts of a session that a trace does not show."""
    counts = document["otherData"]["left_out"]
    said = (
        (_UNBORN, "{} never began and {} not in the trace.", "run"),
        (UNSETTLED, "{} never finished and {} not in the trace.", "span"),
        (BEFORE_ZERO, "{} from before a run's zero, while its models were loaded, {} not in the trace.", "record"),
        (_UNTIMED, "{} of imported runs had no times of their own and {} not in the trace.", "token"),
    )
    return [
        sentence.format(count_text(count, noun), "is" if count == 1 else "are")
        for key, sentence, noun in said
        if (count := counts[key])
    ]


def _record_count(run: RunLog) -> int:
    by_name = sum(len(rows) for named in (run.kv, run.frames, run.power) for rows in named.values())
    return by_name + len(run.spans) + len(run.tokens) + len(run.rejected) + len(run.rounds) + len(run.memory)


def _device_properties(environment: dict[str, Any]) -> list[dict[str, Any]]:
    """The GPU as far as the session knows it; none on a CPU."""
    if not environment.get("gpu"):
        return []
    return [{"id": 0, "name": str(environment.get("device") or "GPU")}]


def epoch_ns(started_at: str) -> int:
    """ISO 8601 as ns since 1970; 0 where it is not known."""
    try:
        moment = datetime.fromisoformat(started_at)
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
