"""The sections of `evprof bench gpu`, in order: what each measures, how long it may take, and why so long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import Any

from evprof.run.benches.choice import chosen

DONE, FAILED, OUT_OF_TIME, STOPPED = "done", "failed", "out of time", "stopped"
"""The statuses of a section."""

MOST_S = 540
"""Seconds that all sections may take together."""


@dataclass(frozen=True)
class GpuSection:
    """One section: its name for `--only`, what it measures, the seconds after which it is ended, and the sum behind
    them, reckoned for an H200 (4.3 TB/s, 7B weights of 13.2 GB read in 3.1 ms)."""

    name: str
    title: str
    limit_s: int
    reckoning: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


SECTIONS = (
    GpuSection(
        "ceilings",
        "Machine and ceilings",
        40,
        "start 10 s (imports, CUDA context), from a cold disk 30 s; 6 kinds of copy, read and product, 6 samples of "
        "60 ms each: 3 s",
    ),
    GpuSection(
        "tests",
        "CUDA tests",
        80,
        "start 10 s; tests on tiny models and of our kernels, most of their time compiling; none begins in the last "
        "20 s, what is left is counted as skipped",
    ),
    GpuSection(
        "steps",
        "Decode, prefill, vision",
        105,
        "start 10 s, weights 3 s, ceilings 2 x 3 s; a round of 64 tokens: transformers 25 ms a token, eager 9, graphs "
        "4, so 2.5 s, and 3 prefills of 62 TFLOP at most: 0.4 s; 7 rounds at 3 contexts: 61 s; traces and forced "
        "answers 3 x 7 s",
    ),
    GpuSection(
        "fused",
        "The fused step",
        55,
        "start 10 s, weights 3 s, ceilings 2 x 3 s, kernels compiled and tuned 8 s; 4 rounds of transformers and the "
        "fused step, 1.9 s, at 3 contexts: 23 s; traces and forced answers 3 x 1.5 s",
    ),
    GpuSection(
        "compiled",
        "Steps that are compiled",
        90,
        "start 10 s, weights 3 s, ceilings 3 s; compiling ours 5 to 20 s, transformers' unrolled step about 40 s; 4 "
        "rounds of 2 s each; whatever is left begins only while 45 s are left",
    ),
    GpuSection(
        "instrumentation",
        "What the instrumentation costs",
        25,
        "start 10 s; 16 triples of 3 x 192 tokens in 32 thin layers, about 1 ms a token when captured: 10 s",
    ),
    GpuSection(
        "switches",
        "Every switch once",
        45,
        "start 10 s; the bundled pair, some 70 rows of 6 runs of 20 to 50 ms: 25 s; compiling 2 tiny steps 10 s",
    ),
    GpuSection(
        "parallel",
        "Parallel prefill on one GPU",
        35,
        "start 10 s; two 7B models drawn: 8 s; captures 4 s; 4 runs each of draft, target and both, 0.5 s a run: 6 s",
    ),
    GpuSection(
        "blocks",
        "Draft steps and verified blocks",
        30,
        "start 10 s, weights 3 s; 17 lengths captured for each kind of step, 0.1 s each; 19 turns of 4 to 10 ms in 16 "
        "rounds, 3 kinds: 8 s",
    ),
    GpuSection(
        "memory",
        "Peak memory against the plan",
        20,
        "start 10 s; two 7B models, one after the other: 2 x 4 s with two runs each",
    ),
    GpuSection(
        "trace",
        "A torch trace",
        15,
        "start 10 s; one traced run of the bundled target, 4 tokens: 3 s",
    ),
)


def chosen_sections(only: Sequence[str]) -> list[GpuSection]:
    """Those named, in order; all without names. Raises UserError (exit code 2) for a name that nobody has."""
    return chosen(SECTIONS, only, "section", attrgetter("name"), lambda section, word: section.name == word)
