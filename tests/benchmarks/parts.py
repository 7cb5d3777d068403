"""`run.py parts`: how long evprof's own work takes on what it is made for, without any model.

Each part makes its material once and is then timed, one turn of every part after another.
"""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.moving_edges import HEIGHT, WIDTH, moving_edges
from benchmarks.part_files import write_manifest, write_results
from evprof.core.run_log import RunBook
from evprof.loaders.manifests.manifest import read_manifest
from evprof.loaders.pictures.render import render_events
from evprof.loaders.pictures.renderings import RENDERINGS, Painter
from evprof.loaders.simulation import ContrastSimulator
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.gathering import configurations_of
from evprof.metrics.figures.scores import rouge_l
from evprof.run.benches.choice import check_repeat, chosen
from evprof.run.conversion.plan import plan_rows
from evprof.run.conversion.task import ConversionRecipe
from evprof.run.legacy_import import import_files
from whole_session import read_session

EVENTS = 100_000
SAMPLES = 2_220
"""Rows of the dataset that the documents measure on."""

ROWS = 4_600
"""Samples of an imported file of 2.5 MB, each with a row of both models."""

Work = Callable[[], object]
Note = Callable[[str], None]


@dataclass(frozen=True)
class TimedPart:
    """Something evprof does: `prepare` makes what it needs in an empty folder and gives what is timed.

    One call deals with `amount` of `unit`.
    """

    name: str
    amount: int
    unit: str
    prepare: Callable[[Path], Work]


def _frames(_: Path) -> Work:
    halves = list(moving_edges(5 * EVENTS).split_equal_count(5))
    return lambda: [render_events(part) for part in halves]


def _painted(rendering: str, _: Path) -> Work:
    events = moving_edges(EVENTS)
    first, last = int(events.t_us[0]), int(events.t_us[-1]) + 1
    painter = Painter(WIDTH, HEIGHT, rendering=rendering)
    return lambda: painter.paint(events, first, last)


def _simulated(_: Path) -> Work:
    texture = np.random.default_rng(1).integers(0, 256, (HEIGHT, 2 * WIDTH, 3), dtype=np.uint8)
    pictures = [np.ascontiguousarray(texture[:, at : at + WIDTH]) for at in range(12)]

    def work() -> None:
        simulator = ContrastSimulator(WIDTH, HEIGHT)
        for index, picture in enumerate(pictures):
            simulator.frame(picture, index * 10_000)

    return work


def _manifest(folder: Path) -> Work:
    return partial(read_manifest, write_manifest(folder, SAMPLES))


def _planned(folder: Path) -> Work:
    samples = read_manifest(write_manifest(folder, SAMPLES)).samples

    def work() -> None:
        for task in plan_rows(samples, folder / "out", ConversionRecipe("npy"), None).tasks.values():
            task.key()

    return work


def _imported(folder: Path) -> Work:
    results, session = write_results(folder / "results.json", ROWS), folder / "s.evprof"

    def work() -> None:
        session.unlink(missing_ok=True)
        import_files([results], session)

    return work


def _read(folder: Path) -> Work:
    _imported(folder)()
    return lambda: RunBook(read_session(folder / "s.evprof")).update()


def _compared(folder: Path) -> Work:
    _imported(folder)()
    book = RunBook(read_session(folder / "s.evprof"))
    book.update()

    def work() -> None:
        listed = configurations_of(list(book.runs.values()))
        compare_document(listed, listed[0])

    return work


def _texts(_: Path) -> Work:
    text = "a bus is on the road " * 48_000
    return lambda: rouge_l(text, text)


PARTS = (
    TimedPart("five frames", 5 * EVENTS, "events", _frames),
    *(TimedPart(f"paint {rendering}", EVENTS, "events", partial(_painted, rendering)) for rendering in RENDERINGS),
    TimedPart("simulate", 12, "frames", _simulated),
    TimedPart("read manifest", SAMPLES, "rows", _manifest),
    TimedPart("plan conversion", SAMPLES, "rows", _planned),
    TimedPart("import", 2 * ROWS, "runs", _imported),
    TimedPart("read session", 2 * ROWS, "runs", _read),
    TimedPart("compare", 2 * ROWS, "runs", _compared),
    TimedPart("ROUGE-L", 6 * 48_000, "words", _texts),
)


def measure_parts(
    rounds: int, note: Note = lambda _: None, *, only: Sequence[str] = (), parts: Sequence[TimedPart] = PARTS
) -> dict[str, Any]:
    """`environment`, `settings`, `rows` (one per part) and `summary`; `note` hears how far it is.

    `only` are names of parts, or words in them. Raises UserError.
    """
    check_repeat(rounds)
    asked = chosen(parts, only, "part", attrgetter("name"), lambda part, word: word in part.name)
    with tempfile.TemporaryDirectory(prefix="evprof-bench-") as name:
        works = []
        for number, part in enumerate(asked):
            note(f"{number + 1} of {len(asked)}: preparing {part.name}")
            folder = Path(name) / str(number)
            folder.mkdir()
            works.append(part.prepare(folder))
            works[-1]()  # a first turn that does not count: imports, the page cache
        turns = [[_timed_ms(work) for work in works] for _ in range(rounds)]
    rows = [_row(part, taken) for part, taken in zip(asked, zip(*turns, strict=True), strict=True)]
    slowest = max(rows, key=lambda row: float(row["ms"]))
    return {
        "environment": {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()},
        "settings": {"rounds": rounds},
        "rows": rows,
        "summary": {"slowest": slowest["part"], "slowest_ms": slowest["ms"]},
    }


def _timed_ms(work: Work) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def _row(part: TimedPart, taken_ms: Sequence[float]) -> dict[str, Any]:
    middle = statistics.median(taken_ms)
    return {
        "part": part.name,
        "amount": part.amount,
        "unit": part.unit,
        "ms": middle,
        "best_ms": min(taken_ms),
        "worst_ms": max(taken_ms),
        "per_s": 1000 * part.amount / middle,
        "turns": len(taken_ms),
    }
