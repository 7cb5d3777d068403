"""What a suite's report needs of machine and models that no run tells: ceilings measured here, and shapes.

Asked once, before the first row, while nothing is loaded yet. Plain JSON; what it means is `evprof.metrics`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import torch

from engines.bench.ceilings import measure_ceilings
from engines.fit.requirements import ModelShape, model_shape
from engines.hardware.device import Machine, dtype_name, thread_count
from engines.inspection import describe_model
from engines.suites.document_facts import document_facts
from evprof.core.errors import UserError
from evprof.core.units import count_text
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

__all__ = ["document_facts", "model_facts", "suite_facts"]

Note = Callable[[str], None]


def _silent(_: str) -> None:
    pass


def suite_facts(
    choices: Iterable[ModelChoice], settings: GenerationSettings, note: Note = _silent, *, scale: float = 1.0
) -> dict[str, Any]:
    """{"ceilings": […], "models": {name: …}} for the models of a suite under its settings; a few seconds.

    `note` is told what is being measured, and why a model has no facts: what keeps it from running is its rows' to
    say. `scale` shrinks the measurement (for tests).
    """
    shapes = _shapes(choices, note)
    return {"ceilings": _ceilings(shapes, note, scale), "models": _models(shapes, settings)}


def model_facts(choices: Iterable[ModelChoice], settings: GenerationSettings, note: Note = _silent) -> dict[str, Any]:
    return _models(_shapes(choices, note), settings)


def _shapes(choices: Iterable[ModelChoice], note: Note) -> dict[ModelChoice, ModelShape]:
    shapes: dict[ModelChoice, ModelShape] = {}
    for choice in dict.fromkeys(choices):
        try:
            shapes[choice] = model_shape(choice)
        except UserError as error:
            note(f"No shape and roofline of {choice.name}: {error}")
    return shapes


def _ceilings(shapes: dict[ModelChoice, ModelShape], note: Note, scale: float) -> list[dict[str, Any]]:
    machine = Machine()
    seats: dict[tuple[str, torch.dtype, int], None] = {}
    together = thread_count(shape.parameters for shape in shapes.values())
    for choice, shape in shapes.items():
        try:
            device = machine.device(choice.device)
            dtype = machine.dtype(choice.dtype, device)
        except UserError as error:
            note(f"No ceilings for {choice.name}: {error}")
            continue
        counts = {1} if device.type != "cpu" else {thread_count([shape.parameters]), together}
        seats |= dict.fromkeys((str(device), dtype, count) for count in sorted(counts))
    return [_measured(*seat, note, scale) for seat in seats]


def _measured(name: str, dtype: torch.dtype, threads: int, note: Note, scale: float) -> dict[str, Any]:
    before = torch.get_num_threads()
    device = torch.device(name)
    with_threads = f" with {count_text(threads, 'thread')}" if device.type == "cpu" else ""
    note(f"Measuring what {name} can do in {dtype_name(dtype)}{with_threads}.")
    try:
        if device.type == "cpu" and threads != before:
            torch.set_num_threads(threads)
        found = measure_ceilings(device, dtype, scale=scale)
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return {"device": name, **asdict(found)}


def _models(shapes: dict[ModelChoice, ModelShape], settings: GenerationSettings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for shape in shapes.values():
        config = shape.config
        found[shape.name] = {
            "family": config.family,
            **describe_model(config, settings),
            "parameters": shape.parameters,
            "context_limit": config.text.max_position_embeddings,
        }
    return found
