"""Use evprof for a long time and check that it does not grow: ``python packaging/soak.py --out out/soak``.

Parts: ``parallel`` (runs in mode parallel-prefill), ``rows`` (rows of a suite), ``redraws`` (of a window). Each part
has a process of its own. The slope of resident memory is Theil and Sen's estimate with its 95 % interval.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

FIRST = 20
"""Units at the start that may grow: caches fill and models load."""
Sample = tuple[int, int, int, int]
"""Unit, resident bytes, threads, open files."""
Note = Callable[[int], None]


def _parallel(count: int, note: Note) -> None:
    from evprof.cli.run.recorded_session import make_engine
    from evprof.core.recording import RecordLog
    from evprof.run.requests import demo_requests

    first = demo_requests()[0]
    settings = replace(first.settings, max_new_tokens=4, ignore_eos=True)
    engine = make_engine()
    for number in range(count):
        request = replace(first, mode="parallel-prefill", repeat=1, warmup=0, settings=settings)
        engine.run(request, RecordLog(), threading.Event())
        note(number)
    engine.close()


def _rows(count: int, note: Note) -> None:
    from evprof.cli import main

    words = ["--max-new-tokens", "4", "--repeat", str(count), "-o", "suite"]
    counter = iter(range(10**9))
    threading.Thread(target=_every_second, args=(lambda: note(next(counter)),), daemon=True).start()
    main(["-q", "suite", "stages", *words])


def _every_second(sample: Callable[[], None]) -> None:
    while True:
        threading.Event().wait(1)
        sample()


def _redraws(count: int, note: Note) -> None:
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication

    from evprof.core.recording import RecordLog
    from evprof.run.requests import demo_requests
    from scripted_engine import ScriptedEngine
    from ui.style.theme import ThemeHolder, theme_named
    from ui.window.main_window import MainWindow

    application = QApplication(["evprof"])
    window = MainWindow(ThemeHolder(theme_named("dark")))
    recording = RecordLog()
    for group, request in enumerate(demo_requests(), 1):
        numbered = replace(request, repeat=1, first_run_id=2 * group - 1, group_id=group)
        ScriptedEngine(speed=50.0).run(numbered, recording, threading.Event())
    window.show()
    window.controller.replace_recording(recording)
    for number in range(count):
        window.resize(1280 + number % 3 * 40, 800)
        window.repaint()
        application.processEvents()
        if number % 100 == 0:
            note(number)
    window.close()


PARTS: dict[str, tuple[Callable[[int, Note], None], int, int]] = {
    "parallel": (_parallel, 300, 20 << 10),
    "rows": (_rows, 200, 100 << 10),
    "redraws": (_redraws, 10_000, 1 << 10),
}
"""Name -> what it does, how many units, the bytes that one unit (one second for rows) may cost."""


def _measure(part: str, count: int, results: Any) -> None:
    samples: list[Sample] = []
    process = psutil.Process()

    def note(unit: int) -> None:
        samples.append((unit, process.memory_info().rss, process.num_threads(), process.num_fds()))

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        PARTS[part][0](count, note)
    results.put(samples)


def growth_of(samples: list[Sample]) -> tuple[float, float, float, int, int]:
    """Slope in bytes a unit with its interval, and by how much threads and open files rose, after the first units."""
    from scipy.stats import theilslopes

    units, sizes, threads, files = zip(*[sample for sample in samples if sample[0] >= FIRST], strict=True)
    slope = theilslopes(sizes, units, 0.95)
    third = max(1, len(units) // 3)
    rises = [min(counts[-third:]) - max(counts[:third]) for counts in (threads, files)]
    return slope.slope, slope.low_slope, slope.high_slope, *rises


def main(words: list[str] | None = None) -> int:
    """Run the parts and print a table. Returns 1 if one of them grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="share of the full length")
    options = parser.parse_args(words)
    context = multiprocessing.get_context("spawn")
    grows = False
    print("| part | units | KiB a unit (95 %) | more threads | more files | grows |\n|---|---:|---|---:|---:|---|")
    for part in options.parts:
        results = context.Queue()
        process = context.Process(target=_measure, args=(part, int(PARTS[part][1] * options.share), results))
        process.start()
        samples = results.get()
        process.join()
        slope, low, high, threads, files = growth_of(samples)
        part_grows = low > PARTS[part][2] or threads > 0 or files > 0
        grows |= part_grows
        sizes = f"{slope / 1024:.2f} ({low / 1024:.2f} to {high / 1024:.2f})"
        print(f"| {part} | {samples[-1][0] + 1} | {sizes} | {threads} | {files} | {'yes' if part_grows else 'no'} |")
    return 1 if grows else 0


if __name__ == "__main__":
    raise SystemExit(main())
