"""Feeds parsers damaged files: `python packaging/fuzz/run.py [--parser NAME …] [--seconds N] [--out FOLDER]`.

Each parser runs in a process of its own, with limits of memory and time, and is started again after a crash. With
atheris installed (`pip install 'evprof[fuzz]'`) half of the time is led by coverage. Whatever ends neither well nor in
one sentence is kept with how it ended; `--replay FILE` with one parser reads such a file again. Leaves with 1 if
anything was found.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "packaging"), str(ROOT / "tests")]

from fuzz.targets import TARGETS  # noqa: E402 - found only now

HANGS_AFTER_S = 90.0
"""Without one more execution; the worker itself stops what takes 10 s of processor time, unless it is in C."""

STARTS_WITHIN_S = 400.0
"""Importing what models need takes a minute where other programs are at work, too."""

_MOST_RESTARTS = 20


@dataclass
class Tally:
    """What came of one parser."""

    executions: int = 0
    peak: int = 0
    findings: list[Path] = field(default_factory=list)
    said: str = ""


def fuzz(name: str, seconds: float, out: Path, engine: str, seed: int) -> Tally:
    """Runs one parser for so long, through crashes."""
    tally = Tally()
    home = out / name / engine
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    stop = time.monotonic() + seconds
    for attempt in range(_MOST_RESTARTS):
        left = stop - time.monotonic()
        if left < 1:
            break
        words = [sys.executable, "-m", "fuzz.worker", name, str(left), str(home), str(seed + attempt), engine]
        end = _worker(words, home, tally)
        if end is None:
            break
        _keep_crash(home, end, attempt)
    tally.findings = sorted(home.glob("finding-*.txt"))
    shutil.rmtree(home / "in-hand", ignore_errors=True)
    return tally


def _worker(words: list[str], home: Path, tally: Tally) -> str | None:
    """One process; None when it ended as it should, otherwise how it ended."""
    paths = os.pathsep.join([*sys.path[:3], *filter(None, [os.environ.get("PYTHONPATH")])])
    temporary = home / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    with (home / "said.txt").open("ab") as said:
        process = subprocess.Popen(words, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment)
        last, since = -1, time.monotonic()
        hung = False
        while process.poll() is None:
            time.sleep(0.2)
            executions, _ = _counters(home)
            if executions != last:
                last, since = executions, time.monotonic()
            elif time.monotonic() - since > (HANGS_AFTER_S if executions else STARTS_WITHIN_S):
                hung = True
                process.kill()
                process.wait()
    counted = _counters(home)
    tally.executions += counted[0]
    tally.peak = max(tally.peak, counted[1])
    shutil.rmtree(temporary, ignore_errors=True)
    tally.said = (home / "said.txt").read_text(encoding="utf-8", errors="replace")[-600:]
    if hung:
        return "hangs"
    if process.returncode < 0:
        return signal.Signals(-process.returncode).name
    return None if process.returncode == 0 else f"ended with code {process.returncode}"


def _counters(home: Path) -> tuple[int, int]:
    try:
        executions, peak = struct.unpack("<qq", (home / "counters").read_bytes())
    except (OSError, struct.error):
        return 0, 0
    return executions, peak


def _keep_crash(home: Path, end: str, attempt: int) -> None:
    """The file that was in hand when the process ended."""
    for path in (home / "in-hand").glob("*"):
        if path.is_file():
            shutil.copy(path, home / f"finding-crash-{attempt}{path.suffix}")
    (home / f"finding-crash-{attempt}.txt").write_text(f"the process {end}", encoding="utf-8")


def replay(name: str, path: Path) -> int:
    """Reads one file in this process and shows how it ends."""
    TARGETS[name].read(path)
    print("read")
    return 0


def main() -> int:
    """See the top."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parser", action="append", choices=TARGETS, metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each parser (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "fuzz")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="with one --parser: read this file and tell")
    options = parser.parse_args()
    names = options.parser or list(TARGETS)
    if options.replay is not None:
        return replay(names[0], options.replay)
    engines = ["mutations"]
    if importlib.util.find_spec("atheris") is not None:
        engines.append("atheris")
    else:
        print("atheris is not installed: mutations only (pip install 'evprof[fuzz]' adds those led by coverage).")
    print(f"| {'parser':12} | {'executions':>10} | {'peak memory':>11} | findings |")
    print(f"|{'-' * 14}|{'-' * 11}:|{'-' * 12}:|---------:|", flush=True)
    found: list[Path] = []
    for name in names:
        missing = [need for need in TARGETS[name].needs if importlib.util.find_spec(need) is None]
        if missing:
            print(f"| {name:12} | left out: without {', '.join(missing)} |", flush=True)
            continue
        tallies = [fuzz(name, options.seconds / len(engines), options.out, each, options.seed) for each in engines]
        executions, peak = sum(each.executions for each in tallies), max(each.peak for each in tallies)
        findings = [path for each in tallies for path in each.findings]
        print(f"| {name:12} | {executions:10,} | {peak / 2**20:7,.0f} MiB | {len(findings):8} |", flush=True)
        if not executions:
            print(tallies[0].said)
        found += findings
    for path in found:
        print(f"\n{path}: {path.read_text(encoding='utf-8')[:300]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
