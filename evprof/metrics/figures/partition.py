"""Which stages a run can tell from each other: imported files time several in one piece, and nothing splits those.

Figures of such a piece ("vision+prefill") are compared with the same stages of other runs taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from evprof.core.records import COVERS, STAGES
from evprof.core.run_log import RunLog
from evprof.core.units import ms_from_ns
from evprof.metrics.figures import stages
from evprof.metrics.figures.kept import kept

Block = tuple[str, ...]
"""One or several of the five stages, in their order."""

BLOCKS: tuple[Block, ...] = tuple(STAGES[start:stop] for stop in range(2, 6) for start in range(stop - 1))
"""All that may be timed in one piece, longer than one stage."""


class Doubled(NamedTuple):
    """A stage whose interval holds others that were measured by themselves, too: their time is in it again."""

    stage: str
    others: Block


class StagePartition(NamedTuple):
    """What a run's stage intervals account for: the same for all runs of a file or suite."""

    blocks: frozenset[Block]
    doubled: frozenset[Doubled]


def shape_of(run: RunLog) -> StagePartition:
    blocks, doubled = _shape_of(run)
    return _shape(tuple(map(tuple, blocks)), tuple((stage, tuple(others)) for stage, others in doubled))


@lru_cache(maxsize=4096)
def _shape(blocks: tuple[Block, ...], doubled: tuple[tuple[str, Block], ...]) -> StagePartition:
    return StagePartition(frozenset(blocks), frozenset(Doubled(*entry) for entry in doubled))


@kept()
def _shape_of(run: RunLog) -> list[list[Any]]:
    spans = [(span.covers, run.accounts_for(span)) for span in run.stages()]
    blocks = {ordered(owned) for _, owned in spans if owned}
    doubled = {
        (name_of(ordered(owned)), ordered(set(covers) - set(owned)))
        for covers, owned in spans
        if 0 < len(owned) < len(covers)
    }
    return [sorted(blocks), sorted(doubled)]


def is_in_pieces(run: RunLog) -> bool:
    """Whether a run's file timed several stages in one piece."""
    shape = shape_of(run)
    return bool(shape.doubled) or any(len(block) > 1 for block in shape.blocks)


def ordered(names: Iterable[str]) -> Block:
    """Stages in their own order."""
    wanted = set(names)
    return tuple(name for name in STAGES if name in wanted)


def name_of(block: Block) -> str:
    """`vision+prefill`."""
    return COVERS.join(block)


@lru_cache(maxsize=4096)
def answers(shape: StagePartition, block: Block) -> bool:
    """Whether these stages were all measured, and apart from the others.

    A stage whose interval holds another stage once more is not apart from it.
    """
    wanted = set(block)
    inside = [set(part) for part in shape.blocks if wanted & set(part)]
    doubled = [set(others) for stage, others in shape.doubled if wanted & set(stage.split(COVERS))]
    return all(part <= wanted for part in (*inside, *doubled)) and wanted == set().union(*inside)


def measured_ms(run: RunLog, shape: StagePartition, block: Block) -> float | None:
    """Time in ms that the stages of `block` of any role cover, overlaps once; None where that cannot be told."""
    if not answers(shape, block):
        return None
    return _block_ms(run, name_of(block)) if len(block) > 1 else stages.stage_total_ms(run, block[0])


@kept(*((name_of(block),) for block in BLOCKS))
def _block_ms(run: RunLog, name: str) -> float | None:
    intervals = stages.settled_intervals(run, name.split(COVERS))
    return ms_from_ns(stages.covered_ns(run, intervals)) if intervals else None


@kept()
def parts_ms(run: RunLog) -> dict[str, float]:
    """Time in ms of the intervals, of any role, that account for the same stages, overlaps once, by `name_of` these: of
    a run that was measured here only of several in one piece, single stages being `stages.stage_total_ms`."""
    found: dict[str, list[tuple[int, int]]] = {}
    for span in run.stages():
        owned = run.accounts_for(span)
        if span.is_settled and span.end_ns is not None and (len(owned) > 1 or run.info.imported is not None):
            found.setdefault(name_of(ordered(owned)), []).append((span.start_ns, span.end_ns))
    return {name: ms_from_ns(stages.covered_ns(run, intervals)) for name, intervals in found.items()}


def partition(shapes: Iterable[StagePartition], names: Sequence[str] = STAGES) -> list[Block]:
    """The finest division of `names` that every shape can answer, in order of the stages.

    Blocks that reach beyond `names` cannot be told from what lies outside and are left out.
    """
    leader = {name: name for name in STAGES}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for shape in shapes:
        for block in (*shape.blocks, *((*stage.split(COVERS), *others) for stage, others in shape.doubled)):
            for name in block[1:]:
                leader[find(name)] = find(block[0])
    blocks: dict[str, list[str]] = {}
    for name in STAGES:
        blocks.setdefault(find(name), []).append(name)
    return [tuple(block) for block in blocks.values() if set(block) <= set(names)]


def composites(shapes: Iterable[StagePartition], names: Sequence[str] = STAGES) -> list[Block]:
    """The pieces of several stages within `names` that were measured as one, and what it takes to compare them all."""
    listed = list(shapes)
    found = {block for shape in listed for block in shape.blocks} | set(partition(listed, names))
    kept = [block for block in found if len(block) > 1 and set(block) <= set(names)]
    return sorted(kept, key=lambda block: ([STAGES.index(name) for name in reversed(block)], len(block)))
