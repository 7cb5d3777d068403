"""The sections of `evprof bench gpu` in order of value, and how many seconds each takes and may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from evprof.run.benches.choice import chosen

DONE, FAILED, OUT_OF_TIME, STOPPED = "done", "failed", "out of time", "stopped"

MOST_S = 540
"""Seconds that all sections may take together, with the start of their processes."""

START_S = 15
"""Seconds that a process takes to import torch and transformers and to make a CUDA context: 10 to 15 were measured."""

SLOWEST_START_S = 60
"""Seconds after which a process that has begun no section is ended: from a cold disk the start takes 30."""

MEASURED_ON = "NVIDIA H100 80GB HBM3, 2026-11-27"

STEPS, RUNS = "steps", "runs"
"""The processes: one keeps a model for the decode steps, the other lets an engine do whole runs."""


@dataclass(frozen=True)
class GpuSection:
    """One section: its name for `--only`, its title, the seconds after which it is ended, and the process it runs in.

    `measured` has the seconds of its parts as one GPU took them, `assumed` those of parts that were never timed.
    """

    name: str
    title: str
    limit_s: int
    process: str
    measured: Mapping[str, float]
    assumed: Mapping[str, float]

    @property
    def expected_s(self) -> float:
        return sum(self.measured.values()) + sum(self.assumed.values())

    def to_json(self) -> dict[str, Any]:
        kinds = {"measured": self.measured, "assumed": self.assumed}
        parts = {kind: [{"part": part, "seconds": spent} for part, spent in kinds[kind].items()] for kind in kinds}
        return asdict(self) | parts | {"expected_s": self.expected_s}


SECTIONS = (
    GpuSection(
        "steps",
        "Decode, prefill, vision and same tokens",
        100,
        STEPS,
        {"ceilings": 5, "5 rounds of 5 ways of decoding at 640 positions": 22},
        {"weights": 5, "the same at 4,643 positions": 29, "forced answers of 8 ways": 10},
    ),
    GpuSection(
        "compiled",
        "Compiled steps, transformers' own over a static cache first",
        140,
        STEPS,
        {"two times 4 rounds of transformers' eager step": 15},
        {"transformers' step compiled": 45, "ours compiled": 45},
    ),
    GpuSection(
        "instrumentation",
        "What the instrumentation costs",
        30,
        STEPS,
        {},
        {"17 turns of 4 sides of 192 tokens in 32 thin layers": 20},
    ),
    GpuSection(
        "blocks",
        "Draft steps and verified blocks",
        40,
        STEPS,
        {"11 rounds of 17 lengths by the eager, identical and captured step": 7},
        {"the same by the fused step": 2, "two times 17 graphs captured": 5, "kernels compiled": 10},
    ),
    GpuSection("parallel", "Parallel prefill on one GPU", 25, RUNS, {"two 7B models drawn, 12 runs": 16}, {}),
    GpuSection("memory", "Peak memory against the plan", 15, RUNS, {"two 7B models drawn, 2 runs each": 7}, {}),
    GpuSection("energy", "Energy of a decoded token", 15, RUNS, {}, {"a 7B model drawn, 4 runs of 256 tokens": 11}),
    GpuSection("trace", "A torch trace", 20, RUNS, {}, {"one traced run of the bundled target": 10}),
    GpuSection("switches", "Every switch once", 45, RUNS, {}, {"some 70 rows of 6 runs of the bundled pair": 35}),
)


def chosen_sections(only: Sequence[str]) -> list[GpuSection]:
    """Those named, in order; all without names. Raises UserError (exit code 2) for a name that no section has."""
    return chosen(SECTIONS, only, "section", attrgetter("name"), lambda section, word: section.name == word)


def by_process(sections: Iterable[GpuSection]) -> list[list[GpuSection]]:
    return [list(group) for _, group in groupby(sections, attrgetter("process"))]


Rows = Sequence[Mapping[str, Any]]


def fastest(rows: Rows, context: int, key: str) -> Mapping[str, Any] | None:
    """Our fastest decode step at a context among those with a value for `key`; None without one."""
    known = [
        row
        for row in rows
        if (row.get("figure"), row.get("phase"), row.get("context")) == ("step", "decode", context)
        and row["turns"]
        and row[key] is not None
        and row["contender"].startswith("ours")
    ]
    return min(known, key=itemgetter("ms"), default=None)


def summary_of(sections: Rows, rows: Rows, *, is_complete: bool) -> dict[str, Any]:
    """Counts of sections, and figures of our fastest step; None where they were not measured at that context."""

    def value(context: int, key: str) -> Any:
        best = fastest(rows, context, key)
        return None if best is None else best[key]

    return {
        "sections": len(sections),
        "failed": sum(section["status"] in (FAILED, OUT_OF_TIME) for section in sections),
        "decode_mbu_640": value(640, "mbu"),
        "decode_mbu_4643": value(4643, "mbu"),
        "ours_vs_hf_eager": value(640, "vs_hf_eager"),
        "is_complete": is_complete,
    }


@dataclass(frozen=True)
class SectionSize:
    """What is measured at one size.

    The language model's shape, its prompts, tokens and rounds of turns; prompts of draft and target for blocks; pairs
    of the instrumentation; the pair of whole runs, how often these are repeated and how long they are.
    """

    shape: str
    contexts: tuple[int, ...]
    tokens: int
    rounds: int
    block_contexts: tuple[int, int]
    overhead_shape: str
    pairs: int
    draft: str
    target: str
    repeat: int
    run_tokens: int
    switches: tuple[str, ...] = ()
    scale: float = 1.0
    no_compiling: str | None = None


SIZES = {
    "tiny": SectionSize(
        shape="tiny-video-llava",
        contexts=(16, 24),
        tokens=20,
        rounds=2,
        block_contexts=(16, 24),
        overhead_shape="tiny",
        pairs=3,
        draft="evprof-tiny-eventgpt",
        target="evprof-tiny-video-llava",
        repeat=1,
        run_tokens=4,
        switches=("cache static", "early-exit"),
        scale=0.1,
        no_compiling="at tiny shapes nothing is compiled: that takes longer than all the rest",
    ),
    "7b": SectionSize(
        shape="7b-video-llava",
        contexts=(640, 4643),
        tokens=64,
        rounds=4,
        block_contexts=(640, 2086),
        overhead_shape="dispatch-32",
        pairs=16,
        draft="random:7b-eventgpt",
        target="random:7b-video-llava",
        repeat=3,
        run_tokens=32,
    ),
}
"""By name: the shapes of what is promised, and those that only show that every section works."""
