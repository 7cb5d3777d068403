"""Runs the benchmarks whose ratios are promised, and holds each ratio against its bound; fails when one is broken.

Ratios and not times: what they compare ran in turns in the same minutes.

Usage: python packaging/bench_check.py [BENCHMARK ...]     events, video, engine, overhead; without any all run
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bound:
    """What a figure of a benchmark's JSON must be: at `least`, and at `most`."""

    figure: tuple[str, ...]
    """Keys from the outside in; among rows, the row that holds the key as one of its values."""

    least: float = -math.inf
    most: float = math.inf


FASTER_THAN_LIBRARY = {
    "dat": 3.0,
    "es": 2.0,
    "evt2": 1.5,
    "aedat4 none": 1.3,
    "csv": 1.0,
    "dsec-h5 blosc-zstd": 0.7,
    "npz": 0.7,
}
"""By processor time, a format at a time: about half of what docs/benchmarks.md tells of ten times as many events."""

OURS = "tests/benchmarks/run.py"

BENCHES: dict[str, tuple[Bound, ...]] = {
    f"{OURS} events --events 1000000 --repeat 5": (
        Bound(("summary", "all_equal"), least=1),
        Bound(("summary", "render_is_identical"), least=1),
        Bound(("summary", "render_vs_loop"), least=50),
        *(Bound(("rows", name, "cpu_ratio"), least=ratio) for name, ratio in FASTER_THAN_LIBRARY.items()),
    ),
    f"{OURS} video --only '480p 10 s gop 12' --repeat 3": (
        Bound(("summary", "ours_is_exact"), least=1),
        Bound(("summary", "worst_vs_best_strategy"), most=1.0),
        Bound(("summary", "short_gop_vs_full_decode"), least=2),
    ),
    f"{OURS} engine --shape dispatch-32 --tokens 32 --repeat 7 --contenders ours,hf_eager": (
        Bound(("summary", "ours_vs_hf_eager"), least=1.3),
        Bound(("rows", "ours", "agreement"), least=1),
    ),
    # Broken where even the lower end of the interval is above: noise alone breaks nothing.
    "-m evprof bench overhead --shape dispatch-32 --pairs 60": (
        Bound(("summary", "instrumented_vs_off_ci95_low"), most=1.02),
    ),
}
"""Words after `python`, and the bounds of what they print."""


def find(document: Any, figure: tuple[str, ...]) -> float | None:
    """A figure of a document; None where it was not measured."""
    for key in figure:
        if isinstance(document, list):
            document = next((row for row in document if key in row.values()), {})
        else:
            document = document.get(key)
        if document is None:
            return None
    return float(document)


def judged(bound: Bound, document: Any) -> tuple[bool, str]:
    """Whether a document keeps a bound, and a line that says so."""
    value = find(document, bound.figure)
    kept = value is not None and bound.least <= value <= bound.most
    asked = f"at least {bound.least:g}" if bound.least > -math.inf else f"at most {bound.most:g}"
    shown = "not measured" if value is None else f"{value:.3g}"
    return kept, f"{'kept  ' if kept else 'BROKEN'}  {' '.join(bound.figure[1:])}: {shown} ({asked})"


def main(words: list[str]) -> int:
    """Prints a line for every bound."""
    is_kept = True
    for bench, bounds in BENCHES.items():
        if words and not set(words).intersection(bench.split()):
            continue
        print(bench, flush=True)
        program = [sys.executable, *shlex.split(bench), "--json"]
        done = subprocess.run(program, stdout=subprocess.PIPE, check=False)
        document = json.loads(done.stdout) if done.returncode == 0 else {}
        for bound in bounds:
            kept, line = judged(bound, document)
            is_kept &= kept
            print(f"  {line}", flush=True)
    return 0 if is_kept else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
