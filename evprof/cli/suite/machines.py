"""Where a suite is measured: by this process, or at the places of a cluster, which are asked what only they know."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from evprof.cli import preflight
from evprof.cli.terminal import program
from evprof.cli.terminal.console import Console
from evprof.core.errors import UserError
from evprof.core.units import count_text
from evprof.run.suites.cell import SuiteConfiguration
from evprof.run.suites.plan import SuitePlan

if TYPE_CHECKING:
    from evprof.run.suites.suite import SuiteWatcher

Facts = Callable[[SuitePlan, Any], dict[str, Any]]
"""Measures what the report needs of machine and models; it notes and warns as a console does."""


class Machines:
    """Where a suite is measured: this process and engine processes beside it, or the places of a cluster of Ray.

    A cluster stays connected until the command ends.
    """

    def __init__(
        self, room: Any, cluster: Any, options: argparse.Namespace, cells: Sequence[SuiteConfiguration]
    ) -> None:
        """`cluster`: None without Ray. Raises UserError where the cluster has no place to give."""
        self._room = room
        self._cluster = cluster
        self._options = options
        self._slots: Sequence[Any] = ()
        if cluster is not None:
            choices = [choice for cell in cells for role in cell.roles if (choice := cell.choice(role)) is not None]
            self._slots = cluster.slots(
                options.ray_threads, on_gpus=any(not choice.device.startswith("cpu") for choice in choices)
            )
        # This process answers for a CPU of this machine: another one would import a model library for seconds.
        self._asks_here = cluster is None or (cluster.is_local and not self._slots[0].gpus)

    def check(self, cells: Sequence[SuiteConfiguration]) -> None:
        """Raises UserError for a cell whose models or devices this machine, or the first place, does not have."""
        if self._asks_here:
            preflight.check_cells(cells)
        else:
            self._cluster.ask(self._slots[0], preflight.check_cells, cells)

    def fits(self, cells: Sequence[SuiteConfiguration]) -> bool:
        """Whether the models of all cells stay loaded together at the first place, next to its neighbours."""
        if not self._slots:
            return bool(self._room.fits(cells))
        neighbours = max(Counter(slot.node_id for slot in self._slots).values())
        if self._asks_here:
            return fits_beside(cells, neighbours)
        return bool(self._cluster.ask(self._slots[0], fits_beside, cells, neighbours))

    def facts(self, measure: Facts, plan: SuitePlan, console: Console) -> dict[str, Any]:
        """What `measure` finds of machine and models, on a cluster at the first place."""
        if self._asks_here:
            return measure(plan, console)
        slot = self._slots[0]
        if len({slot.host for slot in self._slots}) > 1:
            console.note(f"ceilings and models' shapes are those of {slot.host}")
        found, notes, warnings = self._cluster.ask(slot, _facts_there, measure, plan)
        for note in notes:
            console.note(note)
        for warning in warnings:
            console.warn(warning)
        facts: dict[str, Any] = found
        return facts

    def counts(self) -> dict[str, int]:
        """Places by the name of their machine; none without a cluster."""
        return dict(Counter(slot.host for slot in self._slots))

    def places(self, plan: SuitePlan, rows: int, watcher: SuiteWatcher) -> Any:
        """As many as there are rows for; None without a cluster, where the driver makes its own."""
        if self._cluster is None:
            return None
        from evprof.run.places.place import SeatTerms

        terms = SeatTerms(
            program.engine_argv, self._options.timeout, plan.spec.cooldown_s, threads=self._options.ray_threads
        )
        return self._cluster.places(self._slots[:rows], terms, watcher.say)


def open_cluster(options: argparse.Namespace, console: Console) -> AbstractContextManager[Any]:
    """The cluster that --ray means; None inside without it. Raises UserError."""
    if options.ray is None:
        if options.ray_threads is not None:
            raise UserError("--ray-threads belongs to --ray; add it.", exit_code=2)
        return nullcontext()
    from evprof.run.places.ray_cluster import RayCluster

    return RayCluster(options.ray, console.note)


def places_text(told: dict[str, int]) -> str:
    """`, on 3 places (vm 1, node7 2)`."""
    if not told:
        return ""
    listed = ", ".join(f"{name} {count}" for name, count in told.items())
    return f", at {count_text(sum(told.values()), 'place')} ({listed})"


def fits_beside(cells: Sequence[SuiteConfiguration], places: int) -> bool:
    """Whether the models of all cells stay loaded together at each of several places of this machine."""
    from engines.fit.verdict import SuiteRoom
    from engines.hardware.device import PartOfMachine

    return SuiteRoom(PartOfMachine(places)).fits(cells)


class _Heard:
    """What is said where no console is."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.note, self.warn = self.notes.append, self.warnings.append


def _facts_there(measure: Facts, plan: SuitePlan) -> tuple[dict[str, Any], list[str], list[str]]:
    """Facts of the machine that this is called on, with what there is to say: notes and warnings."""
    heard = _Heard()
    return measure(plan, heard), heard.notes, heard.warnings
