"""Kill evprof at random moments and check what remains: ``python packaging/kills.py --kills 200 --out out/kills``.

Each kill sends SIGKILL to one program in a folder of its own. The folder holds a session that was recorded before.
A kill fails when a session cannot be read, when an earlier run is missing, or when a process outlives its program.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from evprof.session.opened import open_session  # noqa: E402 - the checkout precedes an installed evprof

SAMPLE = ROOT / "assets" / "samples" / "car-crossing-at-night"
EARLIER = ROOT / "tests" / "session" / "golden" / "format_7.evprof"
LONG = ("--max-new-tokens", "200", "--ignore-eos", "--repeat", "100")
PROGRAMS = {
    "run": ("run", "--sample", SAMPLE, "--mode", "speculative", *LONG, "-o", "s.evprof"),
    "parallel": ("run", "--sample", SAMPLE, "--mode", "parallel-prefill", *LONG, "-o", "s.evprof"),
    "suite": ("suite", "stages", "--data", "list.csv", *LONG, "-o", "suite"),
    "convert": ("convert", "list.csv", "--to", "raw", "-o", "converted"),
    "collect": ("adapter", "collect", "list.csv", "-o", "examples", "--max-new-tokens", "60"),
    "window": ("demo",),
    "engine of a window": ("demo",),
}
EARLY_SHARE = 0.2
"""Share of kills while a program starts."""
PATIENCE_S = 120.0
"""Limit for a program to write its first byte."""
ENDS_WITHIN_S = 5.0
"""Limit for the processes of a killed program to end."""


def kill_once(program: str, chance: random.Random, folder: Path) -> list[str]:
    """Start `program` in `folder`, kill it at a random moment, and return what is wrong afterwards."""
    folder.mkdir(parents=True)
    shutil.copy(EARLIER, folder / "s.evprof")
    row = f"{SAMPLE}/events.npy,{SAMPLE}/video.mp4,What is in the scene?\n"
    (folder / "list.csv").write_text("events,video,prompt\n" + row * 8, encoding="utf-8")
    earlier = _runs(folder / "s.evprof")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    environment |= {"HOME": str(folder), "TMPDIR": str(folder), "EVPROF_KILL": str(folder), "PYTHONPATH": str(ROOT)}
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "evprof", *map(str, PROGRAMS[program])],
            cwd=folder,
            env=environment | {"QT_QPA_PLATFORM": "offscreen", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        if chance.random() < EARLY_SHARE:
            time.sleep(chance.uniform(0, 2))
        else:
            _wait_for_first_bytes(process, folder)
            time.sleep(chance.uniform(0, 2))
        victims = psutil.Process(process.pid).children(recursive=True) if program.startswith("engine") else []
        os.kill(victims[-1].pid if victims else process.pid, signal.SIGKILL)
        time.sleep(1 if victims else 0)
    except (psutil.NoSuchProcess, ProcessLookupError):
        return ["the program ended before the kill"]
    finally:
        process.kill()
        process.wait()
    return _remains(folder, earlier)


def _runs(path: Path) -> dict[int, str]:
    """Run id -> answer of each run, after its rows were read. Raises what reading raises."""
    answers: dict[int, str] = {}
    for number, run in open_session(path).runs.items():
        len(run.spans)
        answers[number] = run.info.text or ""
    return answers


def _wait_for_first_bytes(process: subprocess.Popen[bytes], folder: Path) -> None:
    before = _written(folder)
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and _written(folder) == before and time.monotonic() < deadline:
        time.sleep(0.02)


def _written(folder: Path) -> int:
    sizes = 0
    for path in folder.rglob("*"):
        try:
            sizes += path.stat().st_size if path.is_file() and path.name != "output.txt" else 0
        except OSError:
            continue  # it was removed meanwhile
    return sizes


def _remains(folder: Path, earlier: dict[int, str]) -> list[str]:
    wrong = []
    for path in folder.rglob("*.evprof"):
        try:
            runs = _runs(path) if path.stat().st_size else {}
        except Exception as error:  # noqa: BLE001 - any error means that the session cannot be read
            wrong.append(f"{path.name} cannot be read: {type(error).__name__}: {error}")
            continue
        if path == folder / "s.evprof" and not earlier.items() <= runs.items():
            wrong.append(f"{path.name} lost earlier runs")
    deadline = time.monotonic() + ENDS_WITHIN_S
    while (orphans := _processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return wrong + [f"process {pid} is still there" for pid in orphans]


def _processes_of(folder: Path) -> list[int]:
    pids = []
    for process in psutil.process_iter():
        try:
            is_its = process.environ().get("EVPROF_KILL") == str(folder)
            if is_its and process.status() != psutil.STATUS_ZOMBIE:
                pids.append(process.pid)
        except psutil.Error:
            continue
    return pids


def main(words: list[str] | None = None) -> int:
    """Kill programs in turns and print a table. Returns 1 if a kill failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--out", type=Path, default=Path("out/kills"))
    options = parser.parse_args(words)
    shutil.rmtree(options.out, ignore_errors=True)
    kills, failures = Counter[str](), Counter[str]()
    for number in range(options.kills):
        program = options.programs[number % len(options.programs)]
        folder = options.out.resolve() / f"{number}-{program.replace(' ', '-')}"
        wrong = kill_once(program, random.Random(f"{options.seed}-{number}"), folder)
        kills[program] += 1
        failures[program] += bool(wrong)
        for sentence in wrong:
            print(f"{folder}: {sentence}", file=sys.stderr)
        if not wrong:
            shutil.rmtree(folder)
    print("| program | kills | failed |\n|---|---:|---:|")
    for program, count in kills.items():
        print(f"| {program} | {count} | {failures[program]} |")
    return 1 if failures.total() else 0


if __name__ == "__main__":
    raise SystemExit(main())
