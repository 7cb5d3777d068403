"""Uses evprof for very long and looks whether it grows: `python -m faults.soak --out DIR [--parts window rows …]`.

Parts: `window` (1,000 runs in one window), `redraws` (10,000), `rows` (200 of a suite), `parallel` (300 runs in mode
parallel-prefill). Each has processes of its own. Ends with 1 when memory grows by more than its limit a run, or when
threads, handles or temporary files become more, after the first twenty.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from faults.growth import Sample, growth_of, sample, write_curves
from faults.windows import offscreen_window, run_demos

Samples = dict[str, list[Sample]]


def _window(runs: int) -> Samples:
    """The bundled demo, again and again: the window's own process and its engine's."""
    found: Samples = {"window": [], "engine of the window": []}

    def note(made: int) -> None:
        if made - (found["window"][-1].unit if found["window"] else -9) < 6:
            return
        found["window"].append(sample(made))
        engines = psutil.Process().children()
        if engines:
            found["engine of the window"].append(sample(made, engines[0].pid))

    run_demos([sys.executable, "-m", "evprof", "_engine"], most=runs, tokens=4, on_run=note)
    return found


def _redraws(count: int) -> Samples:
    """A window with the demo's runs, drawn as if its size, its time range and its theme changed."""
    from PySide6.QtWidgets import QApplication

    from ui.style.theme import theme_named

    application, window, holder = offscreen_window()
    _show_some_runs(window)
    found: list[Sample] = []
    for number in range(count):
        window.resize(1280 + number % 3 * 40, 800)
        if number % 500 == 250:
            holder.set_theme(theme_named("light" if number % 1000 == 250 else "dark"))
        window.controller.pull()
        window.repaint()
        QApplication.processEvents()
        if number % 100 == 0:
            found.append(sample(number))
    window.close()
    application.quit()
    return {"redraws": found}


def _show_some_runs(window: Any) -> None:
    from evprof.core.recording import RecordLog
    from evprof.run.demo import demo_requests
    from scripted_engine import ScriptedEngine

    recording, first = RecordLog(), 1
    for group, request in enumerate(demo_requests(), 1):
        numbered = replace(request, repeat=1, first_run_id=first, group_id=group)
        ScriptedEngine(speed=50.0).run(numbered, recording, threading.Event())
        first += 2
    window.controller.replace_recording(recording)


def _rows(count: int) -> Samples:
    """Rows of a suite with the engine in the same process, as `evprof suite` has it."""
    from engines.start import make_engine
    from evprof.loaders.bundled import bundled_sample
    from evprof.run.suites.plan import INTERLEAVED, plan_suite
    from evprof.run.suites.record import fingerprint, suite_fact
    from evprof.run.suites.spec import parse_suite
    from evprof.run.suites.suite import SuiteDriver

    grid = {
        "settings": {"max_new_tokens": 4},
        "cells": [{"mode": "side-by-side", **BUNDLED}, {"mode": "speculative", **BUNDLED}],
    }
    plan = plan_suite(parse_suite(grid, "soak", repeat=-(-count // 2)), [bundled_sample()], INTERLEAVED)
    watcher = _Watcher()
    path = Path(tempfile.mkdtemp()) / "s.evprof"
    SuiteDriver(plan, path, make_engine, watcher, rows_in_memory=20).run(
        suite_fact(plan, fingerprint(plan.spec, plan.samples))
    )
    return {"suite rows": watcher.found}


BUNDLED = {"draft": "evprof-tiny-eventgpt", "target": "evprof-tiny-video-llava"}


class _Watcher:
    """Samples after each row."""

    def __init__(self) -> None:
        self.found: list[Sample] = []

    def begin(self, row: Any, warmup: int) -> None: ...

    def look(self, book: Any) -> None: ...

    def end(self, row: Any, runs: Any, duration_s: float, warmup: int) -> None:
        self.found.append(sample(len(self.found)))

    def lose(self, row: Any, sentence: str) -> None: ...

    def skip(self, row: Any) -> None: ...

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr)

    def stopping(self) -> None: ...


def _parallel(count: int) -> Samples:
    """Runs in mode parallel-prefill of one engine."""
    from engines.start import make_engine
    from evprof.core.recording import RecordLog
    from evprof.run.demo import demo_requests

    first = demo_requests()[0]
    request = replace(
        first,
        mode="parallel-prefill",
        repeat=1,
        warmup=0,
        settings=replace(first.settings, max_new_tokens=4, ignore_eos=True),
    )
    engine, found = make_engine(), []
    for number in range(count):
        engine.run(request, RecordLog(), threading.Event())
        found.append(sample(number))
    engine.close()
    return {"parallel-prefill runs": found}


PARTS: dict[str, tuple[Callable[[int], Samples], int]] = {
    "window": (_window, 1000),
    "redraws": (_redraws, 10_000),
    "rows": (_rows, 200),
    "parallel": (_parallel, 300),
}

MOST_BYTES = {"window": 160 << 10, "redraws": 1 << 10}
"""A unit may cost so much: what a window keeps of a run is its record log and the pictures that the models saw."""

ELSE_BYTES = 20 << 10


def _carry_out(part: str, count: int, results: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="evprof-soak-") as folder:
        os.environ |= {"TMPDIR": folder, "HOME": folder, "XDG_DATA_HOME": f"{folder}/data"}
        tempfile.tempdir = None
        (Path(folder) / "tmp").mkdir()
        tempfile.tempdir = f"{folder}/tmp"
        results.put(PARTS[part][0](count))


def soaked(part: str, count: int) -> Samples:
    """Samples of a part, carried out in a process of its own. Raises RuntimeError when that ended without any."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    process = context.Process(target=_carry_out, args=(part, count, results))
    process.start()
    while process.is_alive() and results.empty():
        time.sleep(0.2)
    if results.empty():
        raise RuntimeError(f"part {part} ended with exit code {process.exitcode}")
    found: Samples = results.get()
    process.join(20)
    process.kill()
    return found


def main(words: list[str] | None = None) -> int:
    """Soaks, prints the table, writes soak.csv, soak.svg and soak.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="of the full length")
    parser.add_argument("--out", type=Path, default=Path("out/soak"))
    asked = parser.parse_args(words)
    asked.out.mkdir(parents=True, exist_ok=True)
    every: Samples = {}
    lines = [
        "| process | units | memory at the end | KiB a unit (95 %) | more threads, handles, files | grows |",
        "|---|---|---|---|---|---|",
    ]
    grows = False
    for part in asked.parts:
        count = int(PARTS[part][1] * asked.share)
        for name, samples in soaked(part, count).items():
            every[name] = samples
            growth = growth_of(samples)
            is_within = growth.is_within(MOST_BYTES.get(name, ELSE_BYTES))
            grows |= not is_within
            slopes = [value / 1024 for value in (growth.slope, growth.low, growth.high)]
            lines.append(
                f"| {name} | {samples[-1].unit + 1} | {growth.held / 2**20:.0f} MiB | {slopes[0]:.2f} "
                f"({slopes[1]:.2f} to {slopes[2]:.2f}) | {', '.join(str(rise) for rise in growth.risen.values())} | "
                f"{'no' if is_within else 'YES'} |"
            )
            print(lines[-1], flush=True)
    (asked.out / "soak.md").write_text("\n".join(lines) + "\n")
    write_curves(every, asked.out)
    print("\n".join(lines))
    return 1 if grows else 0


if __name__ == "__main__":
    raise SystemExit(main())
