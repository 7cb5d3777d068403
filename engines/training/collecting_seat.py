"""A worker that makes examples for another machine: models loaded once, one file in the shared folder for each.

It imports torch after it has set the number of CPU threads, because torch reads that number when it is imported.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from engines.training.collect_plan import CollectPlan
from evprof.core.errors import Cancelled, UserError
from evprof.core.sample import Sample
from evprof.loaders.collection import Shard, read_collection
from evprof.run.collection_journal import ARRIVING, unwritable
from evprof.run.places.place import place_name
from evprof.version import __version__


@dataclass(frozen=True)
class PieceOfWork:
    key: str = ""
    sample: Sample | None = None


@dataclass(frozen=True)
class PieceAnswer:
    """A file in ARRIVING with one example, or an error; neither if its content exists. `settings` are
    `collection_settings`; `is_fatal`: all others would fail; `is_stopped`: nothing was made."""

    place: str
    shard: Shard | None = None
    error: str | None = None
    is_fatal: bool = False
    is_stopped: bool = False
    settings: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    evprof: str = __version__


class CollectingSeat:
    def __init__(self, plan: CollectPlan, threads: int | None, neighbours: int) -> None:
        """`threads` of the CPU are this place's (None: as PyTorch finds), and so many places share its machine."""
        if threads is not None:
            os.environ["OMP_NUM_THREADS"] = str(threads)
        else:
            os.environ.pop("OMP_NUM_THREADS", None)
        self._plan = plan
        self._neighbours = neighbours
        self._stop = threading.Event()
        self._maker: Any = None
        self._settings: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._seen: set[tuple[str, str]] | None = None

    def carry_out(self, piece: PieceOfWork) -> PieceAnswer:
        """Makes its example, with the models loaded before if they are not."""
        place = place_name()
        try:
            if self._stop.is_set():
                raise Cancelled
            if self._maker is None:
                from engines.hardware.device import PartOfMachine
                from engines.training.collecting import ExamplesHere

                maker = ExamplesHere(self._plan, machine=PartOfMachine(self._neighbours))
                self._settings = maker.settings(self._warnings.append, self._stop)
                self._maker = maker
            if piece.sample is None:
                return PieceAnswer(place, settings=self._settings, warnings=tuple(self._warnings))
            return self._made(piece.key, piece.sample, place)
        except Cancelled:
            return PieceAnswer(place, is_stopped=True)
        except UserError as error:
            return PieceAnswer(place, error=error.sentence, is_fatal=True)

    def stop(self) -> None:
        """Asks what is under way to stop, and lets nothing else begin."""
        self._stop.set()

    def _made(self, key: str, sample: Sample, place: str) -> PieceAnswer:
        from engines.training.collecting import Row
        from engines.training.example import write_shard

        if self._seen is None:
            known = read_collection(self._plan.folder).examples
            self._seen = {(told.scene, told.prompt) for told in known}
        made = self._maker.example(Row(key, sample), self._seen, self._stop)
        if made.example is None:
            return PieceAnswer(place, error=made.error)
        folder = self._plan.folder / ARRIVING
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(self._plan.folder, error) from None
        # A name of its own: a place that was given up for lost may still write the same row's.
        path = folder / f"{uuid4().hex}.safetensors"
        return PieceAnswer(place, write_shard(path, [made.example], [made.told], is_full=True))
