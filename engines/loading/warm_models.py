"""Models kept loaded between runs, and what a run pays when one is not; it knows no stage and no record."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch

from engines.decoder.step_choice import DecodeSteps
from engines.stages.model import VisionLanguageModel
from evprof.core.protocols import StopFlag, monotonic_ns
from evprof.core.run_info import SetupFacts
from evprof.core.units import ms_from_ns
from evprof.core.vocabulary.generation import ModelChoice

Loader = Callable[[ModelChoice, str, Callable[[int, int], None], StopFlag], VisionLanguageModel]

_Key = tuple[ModelChoice, str]

LAZY_DEVICES = ("cuda",)
"""Whose libraries load kernels, and choose among them, when a shape first asks for one: inside a stage."""


@dataclass(frozen=True)
class Warm:
    model: VisionLanguageModel
    setup: SetupFacts
    steps: DecodeSteps


class WarmModels:
    """Holds models by choice and role. `import_ms` is told once, with the first model loaded."""

    def __init__(self, loader: Loader, import_ms: float | None = None) -> None:
        self._loader = loader
        self._import_ms = import_ms
        self._held: dict[_Key, VisionLanguageModel] = {}
        self._steps: dict[_Key, DecodeSteps] = {}
        self._used: dict[_Key, set[str]] = {}

    def holds(self, choice: ModelChoice, role: str) -> bool:
        return (choice, role) in self._held

    def is_warm_for(self, choice: ModelChoice, role: str, way: str) -> bool:
        """Whether that model is loaded, and on a GPU was run in this way (see `way_of`)."""
        return self.holds(choice, role) and not self.is_first_use(choice, role, way)

    def is_first_use(self, choice: ModelChoice, role: str, way: str) -> bool:
        """Whether a loaded model lies on one of LAZY_DEVICES and was not run in that way yet."""
        is_lazy = self._held[(choice, role)].device.type in LAZY_DEVICES
        return is_lazy and way not in self._used.get((choice, role), ())

    def note_use(self, choice: ModelChoice, role: str, way: str) -> None:
        self._used.setdefault((choice, role), set()).add(way)

    def import_libraries(self) -> None:
        if self._import_ms is None:
            return
        began_ns = monotonic_ns()
        importlib.import_module("transformers.models.llama.modeling_llama")
        importlib.import_module("transformers.models.clip.modeling_clip")
        self._import_ms += ms_from_ns(monotonic_ns() - began_ns)

    def get(self, choice: ModelChoice, role: str, progress: Callable[[int, int], None], stop: StopFlag) -> Warm:
        """The model, loaded if need be. Raises what the loader raises, UserError and Cancelled among it."""
        held = self._held.get((choice, role))
        if held is not None:
            return Warm(held, SetupFacts(), self._steps[(choice, role)])
        began_ns = monotonic_ns()
        model = self._loader(choice, role, progress, stop)
        if model.device.type == "cuda":
            torch.cuda.synchronize(model.device)
        setup = SetupFacts(import_ms=self._import_ms, weights_ms=ms_from_ns(monotonic_ns() - began_ns))
        self._import_ms = None
        steps = DecodeSteps(model.language_model)
        self._held[(choice, role)], self._steps[(choice, role)] = model, steps
        return Warm(model, setup, steps)

    def release_caches(self) -> None:
        """Releases the KV caches and graphs that captured passes keep between runs."""
        for key, model in self._held.items():
            self._steps[key].release()
            model.release()

    def keep_only(self, wanted: set[_Key]) -> None:
        surplus = [key for key in self._held if key not in wanted]
        for key in surplus:
            del self._held[key], self._steps[key]
            self._used.pop(key, None)
        if surplus:
            free_memory()

    def clear(self) -> None:
        self.keep_only(set())


def free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
