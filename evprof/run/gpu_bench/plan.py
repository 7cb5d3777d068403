"""The sections of `evprof bench gpu` in order of value, and how many seconds each takes and may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from evprof.core.units import percent_text
from evprof.run.benches.choice import chosen

DONE, FAILED, OUT_OF_TIME, STOPPED = "done", "failed", "out of time", "stopped"
"""The statuses of a section."""

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
        "tests",
        "CUDA tests, our kernels' first",
        75,
        STEPS,
        {"start of pytest's own process": 15},
        {"as many tests as the time allows; none begins in the last 20 s": 60},
    ),
    GpuSection(
        "steps",
        "Decode, prefill, vision and same tokens",
        100,
        STEPS,
        {"ceilings, twice": 9, "5 rounds of 5 ways of decoding at 640 positions": 22},
        {"weights": 5, "the same at 4,643 positions": 29, "traces and forced answers of 10 ways": 20},
    ),
    GpuSection(
        "compiled",
        "Compiled steps, transformers' own over a static cache first",
        140,
        STEPS,
        {"ceilings, once more": 5, "two times 4 rounds of transformers' eager step": 15},
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

MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"

FULL_SIZE = "7b"

NEAR_LIMIT = {640: 0.85, 4643: 0.80}
"""Least share of the measured bandwidth by positions."""

LEAST_SPEED = 3.0

MOST_OVERHEAD = 1.01

LEAST_SAME = 0.75
"""Of positions, in bfloat16: two passes over 32 layers of random weights agreed at 87 % of 128."""


@dataclass(frozen=True)
class TargetVerdict:
    """One promise: `value` is what it is judged by, of `n` turns, pairs or positions with quartiles or interval
    `low` to `high` where there is one; `subject` is what was measured."""

    target: str
    verdict: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    subject: str = ""


def judged(rows: Rows, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every promise. They are about 7B shapes on a GPU: of anything else they are not measured."""
    is_full_size = (settings.get("device_type"), settings.get("size")) == ("cuda", FULL_SIZE)
    return [asdict(verdict) for verdict in _verdicts(rows if is_full_size else ())]


def _verdicts(rows: Rows) -> Iterable[TargetVerdict]:
    for context, least in NEAR_LIMIT.items():
        yield _bandwidth(rows, context, least)
    yield _speed(rows)
    yield _instrumentation(rows)
    yield _same_tokens(rows)


def _bandwidth(rows: Rows, context: int, least: float) -> TargetVerdict:
    target = f"decode reads at {percent_text(least)} of the measured bandwidth or more, {context} positions"
    best = fastest(rows, context, "mbu")
    if best is None:
        return TargetVerdict(target, NOT_MEASURED)
    share = best["mbu"]
    # The share goes with one over the time: the quartiles change places.
    low, high = (share * best["ms"] / best[key] for key in ("ms_high", "ms_low"))
    return TargetVerdict(target, _met(share >= least), share, low, high, best["turns"], best["contender"])


def _speed(rows: Rows) -> TargetVerdict:
    target = f"decode is {LEAST_SPEED:g} times as fast as transformers' eager step or more, 640 positions"
    best = fastest(rows, 640, "vs_hf_eager")
    if best is None:
        return TargetVerdict(target, NOT_MEASURED)
    ratio, low, high = (best[f"vs_hf_eager{end}"] for end in ("", "_low", "_high"))
    return TargetVerdict(target, _met(ratio >= LEAST_SPEED), ratio, low, high, best["turns"], best["contender"])


def _instrumentation(rows: Rows) -> TargetVerdict:
    target = "the instrumentation costs 1 % of a decoded token or less"
    overhead = next((row for row in rows if row.get("figure") == "overhead"), None)
    if overhead is None:
        return TargetVerdict(target, NOT_MEASURED)
    ratio, low, high = (overhead[f"instrumented_vs_off{end}"] for end in ("", "_ci95_low", "_ci95_high"))
    subject = f"{overhead['shape']}, {overhead['step']} step"
    return TargetVerdict(target, _met(ratio <= MOST_OVERHEAD), ratio, low, high, overhead["pairs"], subject)


def _same_tokens(rows: Rows) -> TargetVerdict:
    """Of all our steps but the eager one, position by position; the value is the share of equal tokens."""
    target = f"{percent_text(LEAST_SAME)} of positions or more have the eager step's token, the others are near-ties"
    compared = [row for row in _decoding(rows) if row.get("is_forced") and row["contender"] != "ours"]
    positions, same, differing, near = (
        sum(row[key] for row in compared)
        for key in ("compared_positions", "same_positions", "divergences", "near_ties")
    )
    if not positions:
        return TargetVerdict(target, NOT_MEASURED)
    share, subject = same / positions, f"{near:,} of {differing:,} that differ are near-ties"
    return TargetVerdict(target, _met(share >= LEAST_SAME and near == differing), share, n=positions, subject=subject)


def _met(holds: bool) -> str:
    return MET if holds else MISSED


def is_ours(row: Mapping[str, Any]) -> bool:
    return str(row["contender"]).startswith("ours")


def _decoding(rows: Rows) -> list[Mapping[str, Any]]:
    return [row for row in rows if row.get("figure") == "step" and row["phase"] == "decode" and row["turns"]]


def fastest(rows: Rows, context: int, key: str) -> Mapping[str, Any] | None:
    """Our fastest step at a context among those whose `key` is known."""
    known = [row for row in _decoding(rows) if row["context"] == context and row[key] is not None]
    return min(filter(is_ours, known), key=itemgetter("ms"), default=None)


def summary_of(sections: Rows, rows: Rows, *, is_complete: bool) -> dict[str, Any]:
    """The promised keys; figures are of our fastest step, None where they were not measured at that context."""

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
