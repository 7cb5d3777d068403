"""Lists converted by a Ray cluster of this machine: the files of one process, whatever dies on the way."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.writers.npy import write_npy
from evprof.run.conversion.dataset import DatasetEnd, convert_list
from evprof.run.conversion.plan import ConversionPlan, plan_rows
from evprof.run.conversion.task import ConversionRecipe
from evprof.run.conversion.workers import in_cluster
from evprof.run.places.ray_cluster import LOCAL, RayCluster
from made_conversions import ConversionNotes, some_events
from processes_below import processes_named

ACTOR = "ray::ConversionSeat"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with RayCluster(LOCAL, lambda _: None, cpus=2) as found:
        yield found


@pytest.fixture
def samples(tmp_path: Path) -> list[Sample]:
    found = []
    for number in range(24):
        path = tmp_path / f"{number}.npy"
        write_npy(path, [some_events(number, 40_000)])
        found.append(Sample(str(path), name=f"sample {number}"))
    return found


def converted(plan: ConversionPlan, watcher: ConversionNotes, cluster: RayCluster | None = None) -> DatasetEnd:
    if cluster is None:
        return convert_list(plan, watcher)
    slots = cluster.slots(1, on_gpus=False)
    assert len(slots) == 2
    return convert_list(plan, watcher, pool=partial(in_cluster, cluster=cluster, slots=slots, folder=plan.folder))


def plan_of(samples: Sequence[Sample], folder: Path) -> ConversionPlan:
    return plan_rows(samples, folder, ConversionRecipe.of("npz", {}), None)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*.npz"))
    }


@pytest.mark.parametrize("kills", [False, True])
def test_two_workers_leave_the_files_of_one_process(cluster, samples, tmp_path, kills):
    alone, spread = tmp_path / "alone", tmp_path / "spread"
    converted(plan_of(samples, alone), ConversionNotes())
    killed: list[int] = []

    def kill() -> None:
        """Ends a worker of the cluster once the first file has ended."""
        if kills and not killed:
            killed.append(processes_named(ACTOR)[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    end = converted(plan_of(samples, spread), ConversionNotes(kill), cluster)
    assert bool(killed) == kills
    assert (end.samples, end.failed, end.problems) == (24, {}, [])
    assert contents(spread) == contents(alone)
    assert len(contents(spread)) == 24
    assert not list(spread.rglob("*.part"))


def test_ctrl_c_keeps_what_was_finished_and_the_same_call_goes_on(cluster, samples, tmp_path):
    folder = tmp_path / "spread"
    pressed: list[int] = []

    def press() -> None:
        if not pressed:
            pressed.append(os.getpid())
            os.kill(os.getpid(), signal.SIGINT)

    end = converted(plan_of(samples, folder), ConversionNotes(press), cluster)
    assert end.is_stopped
    assert 0 < end.samples < 24
    again = converted(plan_of(samples, folder), ConversionNotes(), cluster)
    assert (again.samples, len(again.kept)) == (24, end.samples)


def test_a_machine_that_does_not_see_the_folder_is_named(samples, tmp_path):
    class Blind:
        """A cluster of a machine elsewhere."""

        def elsewhere(self, slots: Sequence[object]) -> list[object]:
            class Slot:
                host = "node7"

            return [Slot()]

        def ask(self, *_: object) -> bool:
            return False

    plan = plan_of(samples, tmp_path / "spread")
    pool = partial(in_cluster, cluster=Blind(), slots=[None], folder=plan.folder)
    with pytest.raises(UserError, match="node7 does not see the folder"):
        convert_list(plan, ConversionNotes(), pool=pool)
