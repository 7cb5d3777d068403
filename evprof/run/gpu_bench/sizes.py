"""The sizes at which `evprof bench gpu` measures."""

from __future__ import annotations

from dataclasses import dataclass


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
