"""Kills evprof at random moments of real runs and looks at what is left: `python -m faults.kill --kills 200 --out DIR`.

Ends with 1 when a session cannot be read, a process outlives its program, or records older than --most-ms were lost.
The same --seed kills at the same moments after each program's start, as far as the machine is the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from faults.appended import MEASURED, entries_of, lost_ms
from faults.programs import begin, preload, sessions_of

PROGRAMS = (*("run", "run", "suite") * 6, "window", "engine")
"""What is killed, in turns: a window takes long to begin, so there are few of them."""

EARLY_SHARE = 0.2
"""Kills before anything was recorded: while a program begins."""

PATIENCE_S = 90.0
"""How long a program may take until it records something."""


@dataclass
class Kill:
    """One kill and what it left."""

    number: int
    program: str
    is_early: bool
    after_s: float
    rows: int = 0
    lost_ms: float = 0.0
    oldest_ms: float = 0.0
    unreadable: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


def killed(number: int, program: str, seed: int, place: Path) -> Kill:
    """Begins a program, kills it at a moment drawn from the seed, and tells what it left."""
    chance = random.Random(f"{seed}-{number}")
    kill = Kill(number, program, chance.random() < EARLY_SHARE, 0.0)
    folder = place / f"{program}-{number}"
    folder.mkdir()
    child = begin(program, folder)
    began_s = time.monotonic()
    try:
        if program == "engine" or not kill.is_early:
            diary = folder / ("engine-diary" if program == "engine" else "diary")
            _wait(child, lambda: any(stream in MEASURED for stream, *_ in entries_of(diary)))
            time.sleep(chance.uniform(0, 1.2))
        else:
            time.sleep(chance.uniform(0, 0.6))
        killed_ns = _kill(child, program)
        kill.after_s = time.monotonic() - began_s
        if program == "engine":
            time.sleep(1.0)  # the window goes on: it notices, ends the run, and saves
    finally:
        _kill(child, "all")
        os.waitpid(child, 0)
    _look(kill, folder, killed_ns)
    return kill


def _kill(child: int, program: str) -> int:
    """Sends SIGKILL to the program, or to the newest engine process of its window; when, in ns."""
    victim = child
    if program == "engine":
        engines = [entry.pid for entry in psutil.Process(child).children(recursive=True)]
        victim = engines[-1] if engines else child
    now_ns = time.monotonic_ns()
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    return now_ns


def _wait(child: int, is_there: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_there() and time.monotonic() < deadline:
        time.sleep(0.01)
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise RuntimeError("a program ended before it was killed; see 'said' in its folder")


def _look(kill: Kill, folder: Path, killed_ns: int) -> None:
    kill.orphans = [str(process) for process in _orphans(folder)]
    engine = kill.program == "engine"
    entries = entries_of(folder / ("engine-diary" if engine else "diary"))
    saved: dict[str, int] = {}
    for path in sessions_of(folder):
        try:
            saved = _rows_of(path)
        except Exception as error:  # noqa: BLE001 - whatever it is, the session cannot be read
            kill.unreadable.append(f"{path.name}: {type(error).__name__}: {error}")
    kill.rows = sum(saved.values())
    if not kill.unreadable:
        kill.lost_ms, kill.oldest_ms = lost_ms(entries, saved, killed_ns)
    kill.leftovers = [str(path.relative_to(folder)) for path in _leftovers(folder)]


def _rows_of(path: Path) -> dict[str, int]:
    """Rows by stream, as any reader finds them. Raises what a reader raises; a file that holds no run yet is none."""
    from evprof.session.reading import load_session

    if not path.stat().st_size:
        return {}
    return {name: len(stream) for name, stream in load_session(path).recording.streams.items()}


def _orphans(folder: Path) -> Iterator[psutil.Process]:
    """Processes of that program, half a second after its end."""
    deadline = time.monotonic() + 3.0
    while time.monotonic() < deadline:
        found = [process for process in psutil.process_iter() if _is_of(process, folder)]
        if not found:
            return
        time.sleep(0.1)
    yield from found


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        is_its = process.environ().get("EVPROF_FAULTS") == str(folder)
        return bool(is_its and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _leftovers(folder: Path) -> Iterator[Path]:
    """What nobody asked for: temporary files, halves of files, files without a byte."""
    for path in sorted(folder.rglob("*")):
        if path.parent == folder or path.is_dir():
            continue
        is_temporary = (folder / "tmp") in path.parents or path.suffix in (".part", ".lock")
        if is_temporary or (not path.stat().st_size and path.suffix not in (".evprof-wal", ".evprof-shm")):
            yield path


# Many of them.


def _work(numbers: list[tuple[int, str]], seed: int, place: Path, results: Any) -> None:
    preload()
    for number, program in numbers:
        try:
            kill = killed(number, program, seed, place)
        except (RuntimeError, OSError, psutil.Error) as error:
            results.put({"number": number, "program": program, "refused": f"{type(error).__name__}: {error}"})
            continue
        results.put(asdict(kill))
        if not (kill.unreadable or kill.orphans or kill.leftovers):
            shutil.rmtree(place / f"{program}-{number}", ignore_errors=True)


def kill_many(
    count: int, seed: int, place: Path, out: Path, *, at_once: int, programs: tuple[str, ...] = PROGRAMS
) -> list[dict[str, Any]]:
    """`count` kills, `at_once` at a time, in folders below `place`; told in `out` as they are made."""
    listed = [(number, programs[number % len(programs)]) for number in range(count)]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [
        context.Process(target=_work, args=(listed[part::at_once], seed, place, results)) for part in range(at_once)
    ]
    for worker in workers:
        worker.start()
    found = []
    for done in range(1, count + 1):
        found.append(results.get(timeout=300))
        (out / "kills.json").write_text(json.dumps(found, indent=1))
        if done % 20 == 0:
            print(f"{done} of {count} kills", file=sys.stderr, flush=True)
    for worker in workers:
        worker.join()
    return sorted(found, key=lambda entry: int(entry["number"]))


def table_of(found: list[dict[str, Any]]) -> str:
    """What came of the kills, by program, as Markdown."""
    lines = [
        "| killed | kills | unreadable | orphans | leftovers | kills that lost rows | lost ms: median, worst | "
        "oldest lost ms: median, worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for program in (*dict.fromkeys(entry["program"] for entry in found), "all"):
        rows = [entry for entry in found if program in (entry["program"], "all") and "refused" not in entry]
        if not rows:
            continue
        losses, ages = [row["lost_ms"] for row in rows], [row["oldest_ms"] for row in rows]
        lines.append(
            f"| {program} | {len(rows)} | {sum(bool(row['unreadable']) for row in rows)} | "
            f"{sum(bool(row['orphans']) for row in rows)} | {sum(bool(row['leftovers']) for row in rows)} | "
            f"{sum(age > 0 for age in ages)} | {statistics.median(losses):.1f}, {max(losses):.0f} | "
            f"{statistics.median(ages):.0f}, {max(ages):.0f} |"
        )
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Kills, prints the table, writes kills.json and kills.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--most-ms", type=float, default=250.0)
    parser.add_argument("--programs", nargs="+", choices=sorted({*PROGRAMS}), default=list(PROGRAMS))
    parser.add_argument("--out", type=Path, default=Path("out/faults"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="evprof-faults-"))
    found = kill_many(asked.kills, asked.seed, place, asked.out, at_once=asked.at_once, programs=tuple(asked.programs))
    refused = [entry for entry in found if "refused" in entry]
    whole = f"seed {asked.seed}, {time.monotonic() - began_s:.0f} s"
    text = f"{table_of(found)}\n\n{whole}; {len(refused)} programs ended before they were killed."
    (asked.out / "kills.json").write_text(json.dumps(found, indent=1))
    (asked.out / "kills.md").write_text(text + "\n")
    print(text)
    bad = [
        entry
        for entry in found
        if "refused" in entry or entry["unreadable"] or entry["orphans"] or entry["oldest_ms"] > asked.most_ms
    ]
    for entry in bad:
        print(json.dumps(entry), file=sys.stderr)
    with suppress(OSError):
        place.rmdir()  # what is left in it is kept to be looked at
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
