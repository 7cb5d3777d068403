"""Reads any Chrome trace back and says what is wrong with it, by the rules of the format and of those who read it.

It computes with the numbers as they stand in the file, like viewers do: µs as floats, or ns rounded from them.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

Entry = dict[str, Any]
Track = tuple[int, int]

KINDS = {"X", "C", "i", "s", "f", "M"}


class TraceCheck:
    """A trace re-parsed. `problems` is empty when it is sound; `counts` are entries by kind, slices by `args.kind` or
    category."""

    def __init__(self, source: Path | dict[str, Any]) -> None:
        if isinstance(source, Path):
            data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
        else:
            data = json.dumps(source, allow_nan=False, ensure_ascii=False).encode("utf-8", "backslashreplace")
        # Strict: a bare control character in a string is refused.
        self.document: dict[str, Any] = json.loads(data, parse_constant=_refuse)
        self.entries: list[Entry] = self.document["traceEvents"]
        self.problems: list[str] = []
        self._check_fields()
        self._check_names()
        by_track: dict[Track, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry["ph"] in "Xsf":
                by_track[entry["pid"], entry["tid"]].append(entry)
        self._ends: dict[str, dict[str, list[float]]] = defaultdict(lambda: {"s": [], "f": []})
        for track, entries in by_track.items():
            self._check_file_order(track, entries)
            self._check_stack(track, entries)
        self._check_flows()
        self._check_counters()

    @property
    def slices(self) -> list[Entry]:
        return [entry for entry in self.entries if entry["ph"] == "X" and not is_step(entry)]

    @property
    def counts(self) -> Counter[str]:
        """Slices by what they are, instants by category, counters and flows."""
        found: Counter[str] = Counter()
        for entry in self.entries:
            kind = entry["ph"]
            if kind == "X" and not is_step(entry):
                found[entry["args"].get("kind", entry["cat"])] += 1
            elif kind == "i":
                found[entry["cat"]] += 1
            elif kind in "Cs":
                found["counter" if kind == "C" else "flow"] += 1
        return found

    def _check_fields(self) -> None:
        for entry in self.entries:
            times = [entry.get("ts"), *([entry.get("dur")] if entry.get("ph") == "X" else [])]
            is_sound = (
                entry.get("ph") in KINDS
                and isinstance(entry.get("name"), str)
                and entry["name"] != ""
                and all(type(entry.get(key)) is int for key in ("pid", "tid"))
                and all(isinstance(time, int | float) and math.isfinite(time) and time >= 0 for time in times)
                and (entry["ph"] == "M" or entry["ph"] == "C" or bool(entry.get("cat")))
            )
            if not is_sound:
                self.problems.append(f"fields: {entry}")

    def _check_names(self) -> None:
        told = Counter((entry["pid"], entry["tid"], entry["name"]) for entry in self.entries if entry["ph"] == "M")
        used = {(entry["pid"], entry["tid"]) for entry in self.entries if entry["ph"] in "Xi"}
        for pid, tid in used:
            for name in ("thread_name", "thread_sort_index"):
                if told[pid, tid, name] != 1:
                    self.problems.append(f"names: {told[pid, tid, name]} of {name} for {pid}/{tid}")
        for pid in {pid for pid, _ in used}:
            for name in ("process_name", "process_sort_index"):
                if told[pid, 0, name] != 1:
                    self.problems.append(f"names: {told[pid, 0, name]} of {name} for process {pid}")

    def _check_file_order(self, track: Track, entries: list[Entry]) -> None:
        starts = [entry["ts"] for entry in entries]
        if starts != sorted(starts):
            self.problems.append(f"order: {track} is not in order of time")

    def _check_stack(self, track: Track, entries: list[Entry]) -> None:
        """A stack of open slices, as viewers keep it; once in ns, once with floats as they are."""
        rounded: list[tuple[int, int]] = []
        exact: list[tuple[float, float]] = []
        for entry in entries:
            if entry["ph"] != "X":
                if not exact or exact[-1][0] != entry["ts"] or entry["ts"] > exact[-1][1]:
                    self.problems.append(f"flow: {entry} lies in no slice that begins there")
                self._ends[entry["id"]][entry["ph"]].append(entry["ts"])
                continue
            start_ns, end_ns = round(entry["ts"] * 1000), round(entry["ts"] * 1000) + round(entry["dur"] * 1000)
            while rounded and rounded[-1][1] <= start_ns:
                rounded.pop()
            if rounded and end_ns > rounded[-1][1]:
                self.problems.append(f"nesting: {track} {entry['name']} cuts across another slice")
            rounded.append((start_ns, end_ns))
            start, end = entry["ts"], entry["ts"] + entry["dur"]
            while exact and exact[-1][1] <= start:
                exact.pop()
            if exact and end > exact[-1][1]:
                self.problems.append(f"nesting: {track} {entry['name']} outlasts its parent by a float's breadth")
            exact.append((start, end))

    def _check_flows(self) -> None:
        for flow_id, ends in self._ends.items():
            if len(ends["s"]) != 1 or len(ends["f"]) != 1 or ends["s"][0] > ends["f"][0]:
                self.problems.append(f"flow: {flow_id} has ends {ends}")
        bare = [entry for entry in self.entries if entry["ph"] == "f" and entry.get("bp") != "e"]
        self.problems += [f"flow: {entry} binds to the next slice" for entry in bare]

    def _check_counters(self) -> None:
        last: dict[tuple[int, str], float] = {}
        for entry in self.entries:
            if entry["ph"] != "C":
                continue
            key = entry["pid"], entry["name"]
            if entry["ts"] < last.get(key, 0) or not entry["args"]:
                self.problems.append(f"counter: {entry} goes back or is empty")
            if not all(type(value) is int for value in entry["args"].values()):
                self.problems.append(f"counter: {entry} is no number")
            last[key] = entry["ts"]


def is_step(entry: Entry) -> bool:
    return bool(entry["name"].startswith("ProfilerStep#"))


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")
