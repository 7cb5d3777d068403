"""One run as entries of a Chrome trace: names, slices, instants and counters.

It knows nothing of other runs but where this one is to stand among them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evprof.core.records import TokenRecord
from evprof.core.run_info import FINISHED, RUNNING, RunInfo
from evprof.core.run_log import RunLog
from evprof.export.trace_slices import BEFORE_ZERO, THREADS, Slice, slices_of, threads_of
from evprof.view.range_figures import power_line

Entry = dict[str, Any]

_CATEGORIES = {"tokens": "token", "rejected tokens": "token", "pictures": "picture", "outcome": "outcome"}
"""Tracks of instants, and what they hold."""


@dataclass(frozen=True)
class TracePlace:
    """The process of a run in a trace."""

    pid: int
    session: str = ""
    names_session: bool = False


def run_entries(run: RunLog, zero_ns: int, place: TracePlace, left_out: Counter[str]) -> list[Entry]:
    """The run's entries. What has no place in time is counted in `left_out`."""
    slices = slices_of(run, zero_ns, left_out)
    threads = threads_of(slices)
    drawn = _Drawing(place.pid)
    moments = [*_tokens(run, zero_ns, drawn), *_pictures(run, zero_ns, drawn), *_counters(run, zero_ns, drawn)]
    shown = [entry for at_ns, entries in moments if at_ns >= 0 for entry in entries]
    left_out[BEFORE_ZERO] += sum(at_ns < 0 for at_ns, _ in moments)
    ends = [0, *(entry.end_ns for entry in slices), *(at_ns for at_ns, _ in moments)]
    if run.info.end_ns is not None:
        ends.append(run.info.end_ns - zero_ns)
    shown += _outcome(run, max(ends), drawn)
    names = _thread_names(place, slices, threads, {entry["tid"] for entry in shown if entry["ph"] == "i"})
    return [*_process(run.info, place), *names, *drawn.slices(slices, threads), *shown]


class _Drawing:
    """Makes entries of one run, with times in µs since its zero."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def slices(self, slices: Sequence[Slice], threads: Sequence[int]) -> Iterator[Entry]:
        """Parents before children at equal starts, as viewers expect."""
        order = sorted(
            range(len(slices)),
            key=lambda place: (threads[place], slices[place].start_ns, -slices[place].end_ns, place),
        )
        ends_us: dict[int, list[float]] = {}
        for place in order:
            slice_, thread = slices[place], threads[place]
            start_us, end_us = slice_.start_ns / 1000, slice_.end_ns / 1000
            duration_us = (slice_.end_ns - slice_.start_ns) / 1000
            entry = {
                "ph": "X",
                "name": slice_.name,
                "cat": slice_.category,
                "pid": self._pid,
                "tid": thread,
                "ts": start_us,
                "dur": _duration_up_to(start_us, duration_us, end_us),
                "args": slice_.arguments,
            }
            _fit_in(ends_us.setdefault(thread, []), entry)
            yield entry

    def instant(self, track: str, name: str, at_ns: int, arguments: Entry) -> Entry:
        """A moment on a track; an outcome is drawn across the whole process."""
        category = _CATEGORIES[track]
        return {
            "ph": "i",
            "s": "p" if category == "outcome" else "t",
            "name": name,
            "cat": category,
            "pid": self._pid,
            "tid": THREADS[track],
            "ts": at_ns / 1000,
            "args": arguments,
        }

    def counter(self, name: str, at_ns: int, values: Mapping[str, float]) -> Entry:
        """Values of a counter from this moment on."""
        return {"ph": "C", "name": name, "pid": self._pid, "tid": 0, "ts": at_ns / 1000, "args": values}


def _fit_in(ends_us: list[float], entry: Entry) -> None:
    """Shortens a slice that outlasts its parent by rounding alone; `ends_us` are the ends of those open around it.

    Readers add start and duration as floats, and drop what then seems to cut across.
    """
    while ends_us and ends_us[-1] <= entry["ts"]:
        ends_us.pop()
    if ends_us:
        entry["dur"] = _duration_up_to(entry["ts"], entry["dur"], ends_us[-1])
    ends_us.append(entry["ts"] + entry["dur"])


def _duration_up_to(start_us: float, duration_us: float, end_us: float) -> float:
    """The duration, or the longest whose sum with the start, rounded, is not after the end."""
    if start_us + duration_us > end_us:
        duration_us = end_us - start_us
    if start_us + duration_us > end_us:
        duration_us = max(0.0, math.nextafter(end_us, 0) - start_us)
    return duration_us


def _process(info: RunInfo, place: TracePlace) -> Iterator[Entry]:
    model = info.models.get(info.role)
    parts = (
        place.session if place.names_session else "",
        f"run {info.run_id}",
        info.cell,
        info.mode,
        model.name if model else info.role,
    )
    facts = {"labels": ", ".join(_labels(info)), "session": place.session, "run_id": info.run_id, "cell": info.cell}
    facts |= {"sample": info.sample.name or None, "setup": {r: f.to_json() for r, f in info.setup.items()}}
    if info.imported is not None:
        facts |= {"file": info.imported.path, "row": info.imported.row, "notes": list(info.imported.notes)}
    for name, arguments in (
        ("process_name", {"name": " · ".join(dict.fromkeys(part for part in parts if part))}),
        ("process_labels", facts),
        ("process_sort_index", {"sort_index": place.pid}),
    ):
        yield {"ph": "M", "name": name, "pid": place.pid, "tid": 0, "ts": 0, "args": arguments}


def _labels(info: RunInfo) -> list[str]:
    return [info.status, *info.marks, *(["imported"] if info.imported is not None else [])]


def _thread_names(
    place: TracePlace, slices: Sequence[Slice], threads: Sequence[int], instant_threads: set[int]
) -> Iterator[Entry]:
    names = {thread: entry.track for entry, thread in zip(slices, threads, strict=True)}
    first = {entry.track: entry.base for entry in slices}
    names |= {thread: track for track, thread in THREADS.items() if thread in instant_threads}
    for thread, track in sorted(names.items()):
        lane = thread - first.get(track, thread)
        title = f"{track} ({lane + 1})" if lane else track
        for kind, arguments in (("thread_name", {"name": title}), ("thread_sort_index", {"sort_index": thread})):
            yield {"ph": "M", "name": kind, "pid": place.pid, "tid": thread, "ts": 0, "args": arguments}


Moment = tuple[int, tuple[Entry, ...]]
"""The entries of one record and when it is, in ns since the run's zero."""


def _tokens(run: RunLog, zero_ns: int, drawn: _Drawing) -> Iterator[Moment]:
    """Tokens at the times they were known. Those of most imported runs have none of their own."""
    if not run.info.has_token_times:
        return
    for track, tokens in (("tokens", run.tokens), ("rejected tokens", run.rejected)):
        for token in sorted(tokens, key=lambda token: token.t_ns):
            at_ns = token.t_ns - zero_ns
            name = token.piece.strip() or "token"
            yield at_ns, (drawn.instant(track, name, at_ns, _token_arguments(token)),)


def _token_arguments(token: TokenRecord) -> Entry:
    return {
        "piece": token.piece,
        "id": token.known_id,
        "position": token.position,
        "origin": token.origin,
        "role": token.role,
        "round": token.round_index,
    }


def _pictures(run: RunLog, zero_ns: int, drawn: _Drawing) -> Iterator[Moment]:
    """Where each picture was made ready is not recorded: they stand at the start of their role's vision stage."""
    for role, frames in run.frames.items():
        stage = run.stage("vision", role)
        at_ns = max(0, stage.start_ns - zero_ns) if stage is not None else 0
        for frame in frames:
            arguments = {"role": role, "index": frame.frame_index, "start_us": frame.start_us, "end_us": frame.end_us}
            name = frame.label or f"picture {frame.frame_index}"
            yield at_ns, (drawn.instant("pictures", name, at_ns, arguments),)


def _outcome(run: RunLog, length_ns: int, drawn: _Drawing) -> Iterator[Entry]:
    """Where a run broke off (its last known moment), why, and in which stage."""
    info = run.info
    if info.status in (FINISHED, RUNNING):
        return
    open_stages = [span.name for span in run.stages() if span.end_ns is None]
    arguments = {"status": info.status, "error": info.error, "during": open_stages}
    yield drawn.instant("outcome", info.status, length_ns, arguments)


def _counters(run: RunLog, zero_ns: int, drawn: _Drawing) -> Iterator[Moment]:
    for role, records in run.kv.items():
        for record in sorted(records, key=lambda record: record.t_ns):
            at_ns = record.t_ns - zero_ns
            yield (
                at_ns,
                (
                    drawn.counter(f"KV cache {role} bytes", at_ns, {"bytes": record.nbytes}),
                    drawn.counter(f"KV cache {role} positions", at_ns, {"positions": record.length}),
                ),
            )
    for sample in sorted(run.memory, key=lambda sample: sample.t_ns):
        at_ns = sample.t_ns - zero_ns
        values: Mapping[str, float] = {"resident": sample.rss_bytes} | (
            {"GPU": sample.gpu_bytes} if sample.gpu_bytes >= 0 else {}
        )
        yield at_ns, (drawn.counter("memory", at_ns, values),)
    for device, samples in run.power.items():
        for moment_ns, watts in zip(*power_line(sorted(samples, key=lambda sample: sample.t_ns)), strict=True):
            at_ns = int(moment_ns) - zero_ns
            yield at_ns, (drawn.counter(f"power {device}", at_ns, {"watts": float(watts)}),)
