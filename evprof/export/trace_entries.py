"""One run as entries of a Chrome trace: names, slices with their arrows, instants and counters.

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
from evprof.export.trace_slices import BEFORE_ZERO, THREADS, Flow, Slice, flows_of, slices_of, threads_of
from evprof.view.lanes import power_line

Entry = dict[str, Any]

STEPS_THREAD = 1
"""Where the numbered steps lie that PyTorch's tools look for."""

_MEMORY_NAME = "[memory]"
"""An instant of this name is taken for an allocation by TensorBoard."""

_CATEGORIES = {"tokens": "token", "rejected tokens": "token", "pictures": "picture", "outcome": "outcome"}
"""Tracks of instants, and what they hold."""


@dataclass(frozen=True)
class TracePlace:
    """Where a run stands in a trace: its process, and when it begins. `step` is its number as a step, or None."""

    pid: int
    session: str = ""
    names_session: bool = False
    offset_ns: int = 0
    step: int | None = None


def run_entries(run: RunLog, zero_ns: int, place: TracePlace, left_out: Counter[str]) -> tuple[list[Entry], int]:
    """The run's entries, and how long it is in ns. What has no place in time is counted in `left_out`."""
    slices = slices_of(run, zero_ns, left_out)
    threads = threads_of(slices)
    drawn = _Drawing(place)
    moments = [moment for read in (_tokens, _pictures, _counters) for moment in read(run, zero_ns, drawn)]
    shown = [entry for at_ns, entries in moments if at_ns >= 0 for entry in entries]
    left_out[BEFORE_ZERO] += sum(at_ns < 0 for at_ns, _ in moments)
    length_ns = max([0, *(entry.end_ns for entry in slices), *(at_ns for at_ns, _ in moments)])
    if run.info.end_ns is not None:
        length_ns = max(length_ns, run.info.end_ns - zero_ns)
    shown += _outcome(run, length_ns, drawn)
    entries = [*_process(run.info, place)]
    entries += _thread_names(place, slices, threads, {entry["tid"] for entry in shown if entry["ph"] == "i"})
    if place.step is not None:
        name = f"ProfilerStep#{place.step}"
        # Samplers may look on after the run's end, which is no part of the step.
        end_ns = length_ns if run.info.end_ns is None else run.info.end_ns - zero_ns
        whole = Slice(STEPS_THREAD, "steps", name, "user_annotation", 0, end_ns, {"run": run.run_id})
        entries.append(drawn.slice(whole, STEPS_THREAD))
    entries += drawn.slices(slices, threads, flows_of(run, slices))
    return entries + shown, length_ns


class _Drawing:
    """Makes entries of one run: its process number, and its times from where it stands."""

    def __init__(self, place: TracePlace) -> None:
        self._place = place

    def us(self, at_ns: int) -> float:
        """A moment since the run's zero in µs since the trace's."""
        return (self._place.offset_ns + at_ns) / 1000

    def slices(self, slices: Sequence[Slice], threads: Sequence[int], flows: Sequence[Flow]) -> Iterator[Entry]:
        """Parents before children at equal starts, as viewers expect, and each arrow's end right after its slice.

        An arrow's end belongs to the innermost slice at its moment: that is the one just begun.
        """
        bound: dict[int, list[tuple[str, int, Flow]]] = {}
        for number, flow in enumerate(flows):
            bound.setdefault(flow.source, []).append(("s", number, flow))
            bound.setdefault(flow.target, []).append(("f", number, flow))
        order = sorted(
            range(len(slices)),
            key=lambda place: (threads[place], slices[place].start_ns, -slices[place].end_ns, place),
        )
        ends_us: dict[int, list[float]] = {}
        for place in order:
            thread = threads[place]
            entry = self.slice(slices[place], thread)
            _fit_in(ends_us.setdefault(thread, []), entry)
            yield entry
            for phase, number, flow in bound.get(place, ()):
                yield self._flow(phase, f"{self._place.pid}.{number}", flow.name, slices[place], thread)

    def slice(self, entry: Slice, thread: int) -> Entry:
        start_us = self.us(entry.start_ns)
        duration_us = _duration_up_to(start_us, (entry.end_ns - entry.start_ns) / 1000, self.us(entry.end_ns))
        name, category, arguments = entry.name, entry.category, entry.arguments
        if self._place.step is not None and category in ("stage", "part"):
            # One table of operators for both models: told apart by their role.
            name, category = f"{entry.track}: {name}", "cpu_op"
            arguments = arguments | {"kind": entry.category} | _dimensions(entry)
        elif self._place.step is not None and category != "user_annotation":
            category, arguments = "user_annotation", arguments | {"kind": category}
        return {
            "ph": "X",
            "name": name,
            "cat": category,
            "pid": self._place.pid,
            "tid": thread,
            "ts": start_us,
            "dur": duration_us,
            "args": arguments,
        }

    def _flow(self, phase: str, flow_id: str, name: str, entry: Slice, thread: int) -> Entry:
        found: Entry = {
            "ph": phase,
            "name": name,
            "cat": "flow",
            "id": flow_id,
            "pid": self._place.pid,
            "tid": thread,
            "ts": self.us(entry.start_ns),
        }
        return found | ({"bp": "e"} if phase == "f" else {})

    def instant(self, track: str, name: str, at_ns: int, arguments: Entry) -> Entry:
        """A moment on a track; an outcome is drawn across the whole process."""
        category = _CATEGORIES[track]
        return {
            "ph": "i",
            "s": "p" if category == "outcome" else "t",
            "name": f"token {name}" if name == _MEMORY_NAME else name,
            "cat": category,
            "pid": self._place.pid,
            "tid": THREADS[track],
            "ts": self.us(at_ns),
            "args": arguments,
        }

    def counter(self, name: str, at_ns: int, values: Mapping[str, float]) -> Entry:
        """Values of a counter from this moment on."""
        return {"ph": "C", "name": name, "pid": self._place.pid, "tid": 0, "ts": self.us(at_ns), "args": values}


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


def _dimensions(entry: Slice) -> Entry:
    """Input shapes under the names that PyTorch gives them."""
    return {
        "Input Dims": [[int(size) for size in tensor.shape.split(",") if size.strip()] for tensor in entry.inputs],
        "Input type": [tensor.dtype for tensor in entry.inputs],
    }


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
    if place.step is not None:
        names[STEPS_THREAD] = "steps"
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
