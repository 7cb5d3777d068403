"""`run.py sessions`: how long sessions of very many runs take to open, list, filter, compare and report, and the
memory that takes. Each step runs in a process of its own on a session that is made for it, and is told at once."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.many_runs import ManyRuns, write_many_runs
from benchmarks.processes import run_argv
from evprof.core.errors import USAGE, UserError
from evprof.run.benches.choice import chosen

Note = Callable[[str], object]
Argv = Callable[..., list[str]]

STEPS = {
    "open": "open the session",
    "list": "list its configurations",
    "unfold": "list the runs of one",
    "filter": "filter by words",
    "pick": "read one run's log",
}
"""What the window's list does, in one process."""

MERGED = 1000
"""Runs of the session that is joined with the measured one."""

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "show": lambda session, _: ["show", str(session)],
    "inspect": lambda session, _: ["inspect", str(session), "--json"],
    "compare": lambda session, _: ["compare", str(session), "--json"],
    "report": lambda session, folder: ["report", str(session), "-o", str(folder / "report.html")],
    "export": lambda session, folder: ["export", str(session), "--format", "csv", "-o", str(folder / "runs.csv")],
    "merge": lambda session, folder: [
        "session",
        "merge",
        str(session),
        str(folder / "other.evprof"),
        "-o",
        str(folder / "m.evprof"),
    ],
}
"""Commands, each in a process of its own."""

LIST, WINDOW = "list", "window"


@dataclass(frozen=True)
class Spent:
    """What a process took: seconds, of the processor too, its most memory in bytes (None where the system does not
    say), and its output."""

    seconds: float
    cpu_s: float | None
    peak_bytes: int | None
    output: bytes


def measure_sessions(
    argv: Argv, runs: int, note: Note, only: Sequence[str] = (), session: Path | None = None
) -> dict[str, Any]:
    """Measures `runs` runs, or those of a session that is there. `argv` gives the command line of this program."""
    if runs < 100:
        raise UserError(f"--runs must be at least 100, not {runs}.", exit_code=USAGE)
    names = chosen([LIST, WINDOW, *COMMANDS], only, "step", str, lambda name, word: word in name)
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as folder:
        measured = session or Path(folder) / "many.evprof"
        rows = []
        if session is None:
            note(f"making a session of {runs:,} runs")
            rows += _told([_making(measured, runs, note)], note)
        if "merge" in names:
            write_many_runs(Path(folder) / "other.evprof", ManyRuns(MERGED))
        for name in names:
            rows += _told(_measured(argv, name, measured, Path(folder)), note)
        return {
            "environment": {"python": platform.python_version(), "cpus": os.cpu_count(), "runs": runs},
            "rows": rows,
            "summary": {"runs": runs, "file_mb": measured.stat().st_size / 1e6}
            | {row["step"]: row["seconds"] for row in rows},
        }


def _told(rows: list[dict[str, Any]], note: Note) -> list[dict[str, Any]]:
    """What was measured is told at once: later steps may take minutes, or be stopped."""
    for row in rows:
        memory = "" if row["peak_mb"] is None else f", {row['peak_mb']:.0f} MB"
        processor = "" if row["cpu_s"] is None else f", {row['cpu_s']:.2f} s of the processor"
        note(f"{row['step']}: {row['seconds']:.2f} s{processor}{memory}")
    return rows


def _making(place: Path, runs: int, note: Note) -> dict[str, Any]:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    write_many_runs(place, ManyRuns(runs), note)
    return _row("make", "write the session", time.perf_counter() - wall_s, time.process_time() - cpu_s)


def _measured(argv: Argv, name: str, session: Path, folder: Path) -> list[dict[str, Any]]:
    if name == LIST:
        spent = _spent(run_argv("_list-runs", str(session)))
        found = json.loads(spent.output)
        return [_row(step, told, found[step][0], found[step][1], spent.peak_bytes) for step, told in STEPS.items()]
    if name == WINDOW:
        spent = _spent(run_argv("_paint", str(session)))
        found = json.loads(spent.output.splitlines()[-1])
        seconds, cpu_s = found["first_picture_ms"] / 1000, found["cpu_ms"] / 1000
        return [_row(name, "open it in the window, to its first picture", seconds, cpu_s, spent.peak_bytes)]
    spent = _spent(argv(*COMMANDS[name](session, folder)))
    return [_row(name, f"evprof {name}", spent.seconds, spent.cpu_s, spent.peak_bytes)]


def _row(step: str, told: str, seconds: float, cpu_s: float | None, peak_bytes: int | None = None) -> dict[str, Any]:
    peak_mb = None if peak_bytes is None else peak_bytes / 1e6
    return {"step": step, "does": told, "seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb}


def _spent(words: list[str]) -> Spent:
    """Runs a program to its end. Raises UserError where it fails."""
    began = time.perf_counter()
    peak: int | None = None
    cpu_s: float | None = None
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            words, stdout=output, stderr=errors, env={"QT_QPA_PLATFORM": "offscreen", **os.environ}
        )
        if hasattr(os, "wait4"):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            # Kilobytes, but for macOS.
            peak = usage.ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
            cpu_s = usage.ru_utime + usage.ru_stime
        else:
            process.wait()
        seconds = time.perf_counter() - began
        if process.returncode:
            errors.seek(0)
            last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            raise UserError(f"{' '.join(words[-3:])} ended with exit code {process.returncode}: {' '.join(last)}")
        output.seek(0)
        return Spent(seconds, cpu_s, peak, output.read(1 << 20))
