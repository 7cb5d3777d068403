"""What the status bar says of the machine: memory of the engine, and what recording costs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QObject

from evprof.core.protocols import EngineChanged, Message
from evprof.core.records import MemoryRecord
from evprof.core.units import bytes_text
from evprof.run.kept_overhead import ObserverEffect, observer_effect
from ui.state.newest_errand import NewestErrand
from ui.state.run_controller import RunController
from ui.status.status_bar import OBSERVER, StatusBar

_UNKNOWN = (
    "What recording costs on this machine was not measured yet. Click to measure it: the same decoding with records "
    "and without, in pairs, in some minutes."
)
_MEMORY_TIP = "Memory of the engine process, and of the GPU where there is one, as sampled last (10 times a second)."


class MachineNote(QObject):
    """Follows the engine; what is kept on disk is read on a thread."""

    def __init__(self, controller: RunController, status: StatusBar) -> None:
        super().__init__(controller)
        self._controller = controller
        self._status = status
        self._machine = ""
        self.is_gpu = False
        self.errand = NewestErrand("evprof-observer-effect", self)
        self.errand.done.connect(self._show_effect)
        controller.message.connect(self._take)
        controller.runs_changed.connect(self._show_memory)

    def read(self) -> None:
        if machine := self._machine:
            self.errand.ask(lambda: observer_effect(machine))

    @property
    def device(self) -> str:
        return "cuda" if self.is_gpu else "cpu"

    def _take(self, message: Message) -> None:
        if isinstance(message, EngineChanged) and message.environment:
            self._note(message.environment)

    def _note(self, environment: Mapping[str, Any]) -> None:
        machine = str(environment.get("device") or "")
        if machine != self._machine:
            self._machine, self.is_gpu = machine, bool(environment.get("gpu"))
            self.read()

    def _show_effect(self, found: ObserverEffect | None) -> None:
        text = "not measured" if found is None else found.text
        tip = _UNKNOWN if found is None else f"{found.sentence} Click to measure it again."
        self._status.show_fact(OBSERVER, f"observer effect {text}", tip)

    def _show_memory(self, run_ids: set[int]) -> None:
        run = self._controller.run(max(run_ids))
        # The last sample alone: objects of all of them, for a run that was long watched, take a tenth of a second.
        newest = None if run is None or run.info.is_over else run.newest("memory")
        if not isinstance(newest, MemoryRecord):
            return  # the memory of a run that was opened is no memory of now
        gpu = f" · GPU {bytes_text(newest.gpu_bytes)}" if newest.gpu_bytes >= 0 else ""
        self._status.show_fact("memory", f"{bytes_text(newest.rss_bytes)}{gpu}", _MEMORY_TIP)

    def close(self) -> None:
        self.errand.wait()
