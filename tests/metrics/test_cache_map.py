"""The KV cache by origin: parts add up to the whole, at every moment, whatever the cache keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evprof.core.records import KvRecord, RoundRecord, TokenRecord
from evprof.core.run_info import KvFacts, LengthFacts, RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.costs.cache_map import (
    DRAFTED,
    GENERATED,
    HELD_ORIGINS,
    SYSTEM,
    TEXT,
    VISUAL,
    CacheMap,
    cache_map,
    cache_shape,
    reason_without,
)
from evprof.metrics.figures import kv_cache
from scripted_pair import SCRIPTED_TARGET

LENGTHS = LengthFacts(input=20, system=5, text=7, visual=8, per_frame=[3, 3])


def run_with(
    length: int,
    origins: tuple[str, ...] = ("target", "accepted", "accepted", "bonus"),
    *,
    kind: str = "dynamic",
    mode: str = "speculative",
    lengths: LengthFacts = LENGTHS,
) -> RunLog:
    """A target with so many positions in its cache; its tokens came at 1, 2, 3, … ns."""
    facts = replace(SCRIPTED_TARGET.facts, cache=kind)
    run = RunLog(RunInfo(1, 1, 0, "target", mode, models={"target": facts}, lengths={"target": lengths}))
    for place, origin in enumerate(origins):
        run.absorb(TokenRecord(1, "target", place, place, origin, -1, place + 1, " t"))
    run.absorb(KvRecord(1, "target", 50, length, 0))
    return run


def test_each_origin_has_its_positions() -> None:
    found = cache_map(run_with(23))
    assert [(part.origin, part.positions, part.frame) for part in found.parts] == [
        (SYSTEM, 5, None),
        (VISUAL, 3, 0),
        (VISUAL, 3, 1),
        (VISUAL, 2, None),
        (TEXT, 7, None),
        (GENERATED, 1, None),
        (DRAFTED, 2, None),
    ]
    each = kv_cache.bytes_per_position(SCRIPTED_TARGET.facts)
    assert found.bytes_of(VISUAL) == 8 * each
    assert found.held_bytes == 23 * each == kv_cache.formula_bytes(run_with(23))


def _positions(found: CacheMap, origin: str) -> int:
    return sum(part.positions for part in found.parts if part.origin == origin)


def test_drafts_that_wait_for_their_verdict_are_told_as_drafts() -> None:
    found = cache_map(run_with(20 + 4 + 3))
    assert found is not None
    assert (_positions(found, GENERATED), _positions(found, DRAFTED)) == (2, 2 + 3)
    alone = cache_map(run_with(20 + 5, mode="target"))
    assert alone is not None
    assert _positions(alone, DRAFTED) == 2, "a plain run has nothing that waits"


@given(
    length=st.integers(1, 400),
    kind=st.sampled_from(("dynamic", "static", "fp8", "hqq8", "hqq4")),
    own=st.lists(st.integers(0, 40), max_size=6),
    sizes=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
)
def test_parts_add_up_to_the_whole(length: int, kind: str, own: list[int], sizes: tuple[int, int, int]) -> None:
    system, text, shared = sizes
    visual = sum(own) + shared
    lengths = LengthFacts(system + text + visual, system, text, visual, own)
    found = cache_map(run_with(length, kind=kind, lengths=lengths))
    assert sum(part.positions for part in found.parts) == length == found.length
    assert sum(part.nbytes for part in found.parts) == found.held_bytes
    assert sum(map(found.bytes_of, HELD_ORIGINS)) == found.held_bytes
    assert found.held_bytes == cache_shape(found.model).kept_bytes(length, kind)
    assert all(part.positions > 0 and part.nbytes >= 0 for part in found.parts)


def test_an_earlier_moment_holds_less() -> None:
    run = run_with(23)
    run.absorb(KvRecord(1, "target", 90, 26, 0))
    run.absorb(RoundRecord(1, 0, 60, 1, 1, 1, 5, 2, 3, "", 0))
    run.absorb(RoundRecord(1, 1, 80, 1, 1, 1, 4, 0, 1, "", 0))
    lengths = [found.length if (found := cache_map(run, t_ns=t_ns)) else None for t_ns in (49, 50, 89, 90)]
    assert lengths == [None, 23, 23, 26]
    latest, then = cache_map(run), cache_map(run, t_ns=70)
    assert (latest.rolled_back, then.rolled_back) == (3 + 4, 3)


def test_what_was_measured_stands_beside_the_theory() -> None:
    run = run_with(23)
    each = kv_cache.bytes_per_position(SCRIPTED_TARGET.facts)
    layers = SCRIPTED_TARGET.facts.layers
    run.info.kv = {"target": KvFacts(23 * each, 64 * each, [23 * each // layers] * layers, rolled_back=9)}
    found = cache_map(run)
    assert found.difference == 0
    assert found.reserved_bytes == 41 * each
    assert found.rolled_back_bytes == 9 * each
    assert sum(found.layers_measured) == found.measured_bytes


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [({}, "after preprocessing"), ({"target": LENGTHS}, "before the prefill")],
)
def test_without_a_map_it_says_why(lengths: dict[str, LengthFacts], expected: str) -> None:
    run = RunLog(RunInfo(1, 1, 0, "target", "target", models={"target": SCRIPTED_TARGET.facts}, lengths=lengths))
    assert cache_map(run) is None
    assert expected in reason_without(run, "target")
