"""`run.py events`: our event readers beside the libraries people know, on the same files, in turns.

Every measurement has a process of its own (`event_readers`), so that peaks of memory are a reader's own. It knows no
format itself; which there are is `event_formats`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.environment import environment
from benchmarks.event_formats import CONTESTS, DSEC, Contest
from benchmarks.event_readers import FITS, OURS, ReadingTask, load_source, save_source, why_missing
from benchmarks.moving_edges import SPAN_US, moving_edges
from evprof.core.errors import USAGE, UserError
from evprof.core.events import EventArray
from evprof.core.units import times_text
from evprof.loaders.pictures.render import render_events
from evprof.loaders.writers.hdf5 import write_dsec
from evprof.run.benches.choice import check_repeat, chosen

SMALL_EVENTS = 2_000
LARGE_BYTES = 1 << 30
_RENDERED_EVENTS = 100_000
_CHILD_S = 600
_LIBRARIES = ("numpy", "h5py", "hdf5plugin", "aedat", "faery", "pyarrow", "pandas")

Note = Callable[[str], None]


@dataclass(frozen=True)
class EventsPlan:
    """What is measured: `events` events in each format, `rounds` pairs of readings, `only` some formats.

    `large` writes a DSEC file of a gigabyte for the windows. `reader_argv` starts `read_and_tell` in a process.
    """

    reader_argv: tuple[str, ...]
    events: int = 10_000_000
    rounds: int = 5
    large: bool = False
    only: tuple[str, ...] = ()
    contests: tuple[Contest, ...] = field(default=CONTESTS, repr=False)

    def chosen(self) -> list[Contest]:
        """The formats wanted. Raises UserError (exit code 2) for numbers and names that mean nothing."""
        if self.events < 1000:
            raise UserError(f"--events must be at least 1000, not {self.events}.", exit_code=USAGE)
        check_repeat(self.rounds)
        return chosen(
            self.contests, self.only, "format", attrgetter("name"), lambda contest, name: contest.name == name
        )


def measure_events(plan: EventsPlan, note: Note = lambda _: None) -> dict[str, Any]:
    """`environment`, `rows` and `summary`; `note` hears how far it is. Raises UserError, OSError for a full disk."""
    contests = plan.chosen()
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as name:
        folder = Path(name)
        note(f"Making {plan.events:,} events.")
        save_source(folder, moving_edges(plan.events))
        source, small = load_source(folder, "as it is"), moving_edges(SMALL_EVENTS)
        rows = []
        windows: dict[str, Any] = {}
        for number, contest in enumerate(contests):
            rows.append(_row(contest, plan, folder, small))
            note(f"{number + 1} of {len(contests)}: {_told(rows[-1])}")
            if contest.name == DSEC and rows[-1]["file_bytes"] is not None:
                windows = _window_figures(plan, folder, contest, source, note)
            (folder / contest.file).unlink(missing_ok=True)
        rendering = measure_rendering(source.slice_count(0, _RENDERED_EVENTS), plan.rounds)
        del source
    return {
        "environment": environment(_LIBRARIES),
        "settings": {"events": plan.events, "rounds": plan.rounds, "large": plan.large},
        "rows": rows,
        "summary": _summary(rows) | rendering | (windows or _NO_WINDOWS),
    }


def measure_rendering(events: EventArray, rounds: int) -> dict[str, Any]:
    """EventGPT's picture of these events beside a loop over them: the ratio of times, and whether pixels are equal."""
    ratios = []
    identical = True
    for _ in range(max(3, rounds)):
        began = time.perf_counter()
        ours = render_events(events)
        middle = time.perf_counter()
        plain = _loop(events)
        ratios.append((time.perf_counter() - middle) / (middle - began))
        identical = identical and np.array_equal(ours, plain)
    return {
        "render_vs_loop": statistics.median(ratios),
        "render_is_identical": identical,
        "render_events": len(events),
    }


def _loop(events: EventArray) -> npt.NDArray[np.uint8]:
    """As EventGPT's own program does it: one event after the other."""
    picture = np.full((events.height, events.width, 3), 255, np.uint8)
    for x, y, p in zip(events.x, events.y, events.p, strict=True):
        if p == 0:
            picture[y, x] = np.array([0, 0, 255])
        else:
            picture[y, x] = np.array([255, 0, 0])
    return picture


def _row(contest: Contest, plan: EventsPlan, folder: Path, small: EventArray) -> dict[str, Any]:
    row: dict[str, Any] = {"format": contest.name, "file_bytes": None, "events": None, "reason": None}
    row |= _side("ours", []) | _side("library", []) | {"library": None, "ratio": None, "cpu_ratio": None}
    if contest.needs and (missing := why_missing(contest.needs)):
        return row | {"reason": f"{missing[:-1]}, which writes the file."}
    path, first = folder / contest.file, folder / f"small-{contest.file}"
    events = load_source(folder, contest.fit)
    try:
        contest.write(first, FITS[contest.fit](small))
        contest.write(path, events)
    except UserError as error:
        return row | {"reason": error.sentence}
    row |= {"file_bytes": path.stat().st_size, "events": len(events)}
    library = next((name for name in contest.libraries if why_missing(name) is None), None)
    if library is None:
        names = " nor ".join(contest.libraries)
        row["reason"] = f"{contest.alone}." if contest.alone else f"{names} is not installed."
    readers = [OURS] if library is None else [OURS, library]
    found: dict[str, list[dict[str, Any]]] = {reader: [] for reader in readers}
    for number in range(plan.rounds):
        for reader in readers if number % 2 == 0 else readers[::-1]:
            if any("reason" in each for each in found[reader]):
                continue
            asked = ReadingTask(reader, str(path), str(first), str(folder) if number == 0 else None, contest.fit)
            found[reader].append(_in_child(plan, asked))
    row |= _side("ours", found[OURS])
    if library is not None:
        row |= _side("library", found[library]) | {"library": library}
        row |= {"ratio": _ratio(found[OURS], found[library], "seconds")}
        row |= {"cpu_ratio": _ratio(found[OURS], found[library], "cpu_seconds")}
    reasons = [each["reason"] for turns in found.values() for each in turns if "reason" in each]
    return row | ({"reason": reasons[0].replace(f"{folder}{os.sep}", "")} if reasons else {})


def _side(name: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median and best rate, the highest peak, and whether the events were right."""
    rates = [each["events"] / each["seconds"] / 1e6 for each in turns if "seconds" in each]
    cpu_rates = [each["events"] / each["cpu_seconds"] / 1e6 for each in turns if each.get("cpu_seconds")]
    peaks = [each["peak_bytes"] for each in turns if each.get("peak_bytes") is not None]
    equal = [each["equal"] for each in turns if each.get("equal") is not None]
    return {
        f"{name}_mev_s": statistics.median(rates) if rates else None,
        f"{name}_best_mev_s": max(rates, default=None),
        f"{name}_cpu_mev_s": statistics.median(cpu_rates) if cpu_rates else None,
        f"{name}_peak_mb": max(peaks) / 1e6 if peaks else None,
        f"{name}_equal": all(equal) if equal else None,
    }


def _ratio(ours: Sequence[dict[str, Any]], library: Sequence[dict[str, Any]], key: str) -> float | None:
    """Median over the pairs of how many times as fast ours was by one of the clocks."""
    pairs = [
        other[key] / one[key]
        for one, other in zip(ours, library, strict=False)
        if key in other and one.get(key)  # a clock of 16 ms ticks may see nothing
    ]
    return statistics.median(pairs) if pairs else None


def _window_figures(plan: EventsPlan, folder: Path, contest: Contest, source: EventArray, note: Note) -> dict[str, Any]:
    """100 ms windows of the DSEC file; with `large`, of one as large as LARGE_BYTES at least."""
    path = folder / contest.file
    if plan.large:
        path = folder / "large.h5"
        copies = -(-LARGE_BYTES // (folder / contest.file).stat().st_size)
        note(f"Writing {copies} copies one after the other, for windows of a large file.")
        write_dsec(path, _repeated(source, copies), compression="blosc-zstd")
    found = _in_child(plan, ReadingTask("window", str(path), str(folder / f"small-{contest.file}")))
    if "reason" in found:
        return _NO_WINDOWS | {"window_reason": found["reason"]}
    size = path.stat().st_size
    if plan.large:
        path.unlink()
    return {
        "window_100ms_ms": statistics.median(found["window_ms"]),
        "window_slowest_ms": max(found["window_ms"]),
        "window_open_ms": found["open_ms"],
        "window_events": max(found["events"]),
        "window_file_bytes": size,
        "window_peak_mb": None if found["peak_bytes"] is None else found["peak_bytes"] / 1e6,
    }


_NO_WINDOWS: dict[str, Any] = dict.fromkeys(
    (
        *("window_100ms_ms", "window_slowest_ms", "window_open_ms", "window_events"),
        *("window_file_bytes", "window_peak_mb"),
    )
)


def _repeated(source: EventArray, copies: int) -> Any:
    """The same recording again and again, each copy after the one before."""
    span_us = max(int(source.t_us[-1]) + 1, SPAN_US * len(source) // 10_000_000)
    for copy in range(copies):
        for start in range(0, len(source), 1 << 20):
            part = source.slice_count(start, start + (1 << 20))
            yield EventArray(part.x, part.y, part.t_us + copy * span_us, part.p)


def _in_child(plan: EventsPlan, asked: ReadingTask) -> dict[str, Any]:
    """What a process of its own measured, or the `reason` it did not."""
    try:
        done = subprocess.run(
            [*plan.reader_argv, asked.to_json()], capture_output=True, text=True, timeout=_CHILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"{asked.reader} took longer than {_CHILD_S} s."}
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        told = " ".join(done.stderr.split())[-200:]
        return {"reason": f"{asked.reader} ended with {done.returncode}: {told}"}
    return found


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    compared = [row for row in rows if row["ratio"] is not None]
    slowest = min(compared, key=lambda row: float(row["ratio"]), default=None)
    return {
        "slowest_vs_library": slowest["ratio"] if slowest else None,
        "slowest_format": slowest["format"] if slowest else None,
        "mev_per_s": {row["format"]: row["ours_mev_s"] for row in rows},
        "all_equal": all(row["ours_equal"] for row in rows if row["ours_equal"] is not None),
    }


def _told(row: dict[str, Any]) -> str:
    ours = "not read" if row["ours_mev_s"] is None else f"{row['ours_mev_s']:.0f} Mev/s"
    beside = "" if row["ratio"] is None else f", {times_text(row['ratio'])} {row['library']}"
    return f"{row['format']}: {ours}{beside}"
