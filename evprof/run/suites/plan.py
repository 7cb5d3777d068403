"""The rows of a suite in the order they are measured; values in, values out.

Interleaved: every repetition of a sample is a turn of all cells, in an order drawn at random. In blocks, where the
models of all cells do not stay loaded together: everything that one set of weights is needed for, then the next, with
one row measured again before, between and after.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from evprof.core.errors import UsageError, UserError
from evprof.core.request import RunRequest
from evprof.core.run_info import REFERENCE, RowKey, Turn
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import ModelChoice
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.scoring import with_choices
from evprof.run.suites.cell import SuiteConfiguration
from evprof.run.suites.spec import SuiteSpec
from evprof.run.turns import TurnSchedule

INTERLEAVED, BLOCKS = "interleaved", "blocks"

MOST_ROWS = 500_000
"""Months of measuring; asked for by a slip."""

Weights = frozenset[tuple[str, ModelChoice]]

SamplesOfCells = dict[str, dict[int, Sample]]
"""By label: the samples that the cell has, by their numbers in the list."""


@dataclass(frozen=True)
class SuiteRow:
    """One cell on one sample once. `roles`: whose runs it leaves; one of two where the other is a row of its own.

    `sample` carries the prompt that is asked; `keeps_frames`: the pictures the models see are recorded. `process`
    counts the engine processes: rows of another one want a fresh process. `turn` is that of its first run.
    """

    cell: SuiteConfiguration
    sample: Sample
    repeat: int
    roles: tuple[str, ...]
    keeps_frames: bool = False
    process: int = 0
    turn: Turn | None = None

    @property
    def keys(self) -> tuple[RowKey, ...]:
        return tuple(
            RowKey(self.cell.label, self.sample.name, self.sample.prompt, self.repeat, role) for role in self.roles
        )

    @property
    def group(self) -> tuple[str, str, str, int]:
        """What its runs have in common with those of its other half."""
        return self.cell.label, self.sample.name, self.sample.prompt, self.repeat

    @property
    def is_half(self) -> bool:
        return self.roles != self.cell.answering

    @property
    def weights(self) -> Weights:
        return self.cell.weights(self.roles if self.is_half else None)

    @property
    def warms_by_sample(self) -> bool:
        """Whether every sample wants a warm-up of its own: what is kept from one run to the next is per picture."""
        return self.cell.settings.switches.vision_cache != "off"

    def request(self, warmup: int) -> RunRequest:
        request = self.cell.request(self.sample)
        if self.is_half:
            request = replace(request, mode=self.roles[0])
        return replace(request, warmup=warmup, first_repeat=self.repeat, keeps_frames=self.keeps_frames, turn=self.turn)


@dataclass(frozen=True)
class SuitePlan:
    spec: SuiteSpec
    samples: tuple[Sample, ...]
    order: str
    rows: tuple[SuiteRow, ...]
    problems: tuple[str, ...] = ()


def plan_suite(
    spec: SuiteSpec,
    samples: Sequence[Sample],
    order: str = INTERLEAVED,
    shown: Callable[[SuiteConfiguration, Sample], Sample] = lambda _, sample: sample,
    drawing: random.Random | None = None,
) -> SuitePlan:
    """The rows of a suite. `shown` gives the sample as a cell is shown it (other files, the same name); `drawing` the
    orders of the turns.

    Raises UserError when no sample has what any cell reads.
    """
    problems: list[str] = []
    pairs: SamplesOfCells = {}
    for cell in spec.cells:
        usable = {index: sample for index, sample in enumerate(samples) if cell.lacks(sample) is None}
        pairs[cell.label] = {index: _asked(cell, shown(cell, sample)) for index, sample in usable.items()}
        left_out = [sample for sample in samples if cell.lacks(sample) is not None]
        if left_out:
            problems.append(_left_out(cell, left_out))
    if not any(pairs.values()):
        raise UserError(f"There is nothing to measure: {' '.join(problems) or 'there are no samples.'}")
    count = spec.processes * spec.repeat * sum(map(len, pairs.values()))
    if count > MOST_ROWS:
        raise UsageError(
            f"The suite has {count:,} rows and may have {MOST_ROWS:,}; take fewer samples, cells or repetitions."
        )
    schedule = TurnSchedule(drawing)
    rows: list[SuiteRow] = []
    for process in range(spec.processes):
        if order == BLOCKS:
            whole = _blocks(spec, pairs, schedule, is_backwards=process % 2 == 1)
        else:
            whole = _in_turns(spec.repeat, spec.cells, pairs, schedule)
        # The processes take turns in the numbers of repeats, so that a row keeps its number when repeats are added.
        rows += [replace(row, repeat=row.repeat * spec.processes + process, process=process) for row in whole]
    return SuitePlan(spec, tuple(samples), order, tuple(_with_pictures(rows)), tuple(problems))


def _asked(cell: SuiteConfiguration, sample: Sample) -> Sample:
    choices = sample.expected.choices if sample.expected else ()
    return sample if cell.prompt is None else replace(sample, prompt=with_choices(cell.prompt, choices))


def _left_out(cell: SuiteConfiguration, samples: Sequence[Sample]) -> str:
    kinds = " or ".join(dict.fromkeys(str(cell.lacks(sample)) for sample in samples))
    names = ", ".join(sample.name for sample in samples[:5]) + (", …" if len(samples) > 5 else "")
    count = f"{len(samples)} sample{'s' * (len(samples) != 1)}"
    return f"{count} without {kinds} took no part in cell '{cell.label}': {names}."


def _in_turns(
    repeats: int,
    cells: Sequence[SuiteConfiguration],
    pairs: SamplesOfCells,
    schedule: TurnSchedule,
    roles: tuple[str, ...] | None = None,
) -> Iterator[SuiteRow]:
    """A turn for every repetition and sample, of the cells that have the sample."""
    indices = sorted({index for cell in cells for index in pairs[cell.label]})
    for repeat in range(repeats):
        for index in indices:
            having = [cell for cell in cells if index in pairs[cell.label]]
            rows = [SuiteRow(cell, pairs[cell.label][index], repeat, roles or cell.answering) for cell in having]
            for turn, row in schedule.draw(rows, lambda row: len(row.roles)):
                yield replace(row, turn=turn)


def _blocks(
    spec: SuiteSpec, pairs: SamplesOfCells, schedule: TurnSchedule, *, is_backwards: bool
) -> Iterator[SuiteRow]:
    """A block for every set of weights; side by side is a block of drafts and one of targets."""
    blocks: dict[Weights, list[tuple[SuiteConfiguration, tuple[str, ...]]]] = {}
    for cell in spec.cells:
        for roles in [(role,) for role in cell.roles] if mode_of(cell.mode).is_side_by_side else [cell.answering]:
            half = SuiteRow(cell, Sample(), 0, roles)
            blocks.setdefault(half.weights, []).append((cell, roles))
    listed = [block for block in blocks.values() if any(pairs[cell.label] for cell, _ in block)]
    reference = _reference(listed[0], pairs)
    for number, block in enumerate(reversed(listed) if is_backwards else listed):
        yield _turn_alone(reference, number, schedule)
        by_roles: dict[tuple[str, ...], list[SuiteConfiguration]] = {}
        for cell, roles in block:
            by_roles.setdefault(roles, []).append(cell)
        # A speculative cell and its weights make a block of their own, so a block has rows of one kind nearly always.
        for roles, cells in by_roles.items():
            yield from _in_turns(spec.repeat, cells, pairs, schedule, roles)
    yield _turn_alone(reference, len(listed), schedule)


def _turn_alone(row: SuiteRow, repeat: int, schedule: TurnSchedule) -> SuiteRow:
    turn, row = next(schedule.draw([row]))
    return replace(row, repeat=repeat, turn=turn)


def _reference(block: Sequence[tuple[SuiteConfiguration, tuple[str, ...]]], pairs: SamplesOfCells) -> SuiteRow:
    """The row that is measured again and again: the first cell's first sample."""
    cell, roles = next((cell, roles) for cell, roles in block if pairs[cell.label])
    mode = cell.mode if mode_of(cell.mode).is_paired else roles[0]
    sample = next(iter(pairs[cell.label].values()))
    return SuiteRow(replace(cell, label=REFERENCE, mode=mode, axes={}), sample, 0, roles)


def _with_pictures(rows: Iterable[SuiteRow]) -> Iterator[SuiteRow]:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for row in rows:
        key = (row.cell.label, row.roles)
        yield replace(row, keeps_frames=key not in seen)
        seen.add(key)


class WarmUps:
    """Which rows have to be preceded by warm-up runs: the first of a cell since its models were loaded.

    `stays_loaded`: all models stay once they are there; otherwise those of another set are gone when it is used.
    """

    def __init__(self, count: int, *, stays_loaded: bool) -> None:
        self._count = count
        self._stays = stays_loaded
        self._loaded: Weights = frozenset()
        self._warm: set[tuple[str, ...]] = set()

    def before(self, row: SuiteRow) -> int:
        if not (self._stays or row.weights <= self._loaded):
            self._loaded = row.weights
            self._warm.clear()
        key = (row.cell.label, *row.roles, *((row.sample.name, row.sample.prompt) if row.warms_by_sample else ()))
        if key in self._warm:
            return 0
        self._warm.add(key)
        return self._count


class RowDeck:
    def __init__(self, rows: Iterable[SuiteRow], order: str) -> None:
        self._waits = order == BLOCKS
        self._turns = deque(deque(turn) for _, turn in groupby(rows, _turn))
        self._begun: dict[int, deque[SuiteRow]] = {}
        self._owners: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._turns) or any(self._begun.values())

    def next_for(self, place: int, machine: str) -> SuiteRow | None:
        """The row that a place takes next; None when there is none for its machine."""
        turn = self._begun.get(place)
        if not turn:
            turn = self._turn_for(machine)
            if turn is None:
                return None
            self._begun[place] = turn
        row = turn.popleft()
        self._owners.setdefault(row.sample.name, machine)
        return row

    def ahead(self, place: int) -> Sequence[SuiteRow]:
        """The rest of the turn that a place is at."""
        return self._begun.get(place, ())

    def give_back(self, place: int, row: SuiteRow, *, machine_is_gone: str = "") -> None:
        """A row that was lost comes first again, with the rest of its turn, for any place; what a machine had that is
        gone is free for others."""
        self._turns.appendleft(deque([row, *self._begun.pop(place, ())]))
        self._owners.pop(row.sample.name, None)
        if machine_is_gone:
            self._owners = {name: owner for name, owner in self._owners.items() if owner != machine_is_gone}

    def _turn_for(self, machine: str) -> deque[SuiteRow] | None:
        found = next(
            (
                number
                for number, turn in enumerate(self._turns)
                if self._owners.get(turn[0].sample.name, machine) == machine
            ),
            None if self._waits or not self._turns else 0,
        )
        if found is None:
            return None
        turn = self._turns[found]
        del self._turns[found]
        return turn


def _turn(row: SuiteRow) -> int | None:
    return row.turn.number if row.turn else None
