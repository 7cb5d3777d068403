"""What a suite's report needs of machine and models that no run tells: ceilings measured here, shapes, batch capacity.

Asked once, before the first row, while nothing is loaded yet. Plain JSON; what it means is `evprof.metrics`'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import torch

from engines.bench.ceilings import measure_ceilings
from engines.fit.requirements import ModelShape, batch_capacity, frame_count, memory_need, model_shape, visual_positions
from engines.hardware.device import AssumedMachine, Machine, dtype_name, thread_count
from engines.inspection import describe_model
from engines.suites.document_facts import document_facts
from evprof.core.errors import UserError
from evprof.core.units import MIB, count_text
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice

__all__ = ["CARD_BYTES", "document_facts", "model_facts", "suite_facts"]

CARD_BYTES = 24_000 * MIB

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
    return {"ceilings": _ceilings(shapes, note, scale), "models": _models(shapes, settings, note)}


def model_facts(choices: Iterable[ModelChoice], settings: GenerationSettings, note: Note = _silent) -> dict[str, Any]:
    return _models(_shapes(choices, note), settings, note)


def _shapes(choices: Iterable[ModelChoice], note: Note) -> dict[ModelChoice, ModelShape]:
    shapes: dict[ModelChoice, ModelShape] = {}
    for choice in dict.fromkeys(choices):
        try:
            shapes[choice] = model_shape(choice)
        except UserError as error:
            note(f"No shape, roofline and capacity of {choice.name}: {error}")
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


def _models(shapes: dict[ModelChoice, ModelShape], settings: GenerationSettings, note: Note) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for choice, shape in shapes.items():
        config = shape.config
        entry = found.setdefault(
            shape.name,
            {
                "family": config.family,
                **describe_model(config, settings),
                "parameters": shape.parameters,
                "context_limit": config.text.max_position_embeddings,
                "capacity": [],
            },
        )
        entry["capacity"] += _capacities(choice, shape, settings, note)
    return found


def _capacities(
    choice: ModelChoice, shape: ModelShape, settings: GenerationSettings, note: Note
) -> list[dict[str, Any]]:
    here = Machine()
    found = [_capacity(replace(choice, device="auto"), shape, settings, AssumedMachine(CARD_BYTES), CARD_BYTES)]
    try:
        free = here.free_bytes(here.device(choice.device))
        found.append(_capacity(choice, shape, settings, here, free))
    except UserError as error:
        note(f"No batch capacity of {choice.name} on this machine: {error}")
    return found


def _capacity(
    choice: ModelChoice, shape: ModelShape, settings: GenerationSettings, machine: Machine, memory_bytes: int
) -> dict[str, Any]:
    need = memory_need(choice, "", settings, machine=machine, shape=shape)
    return {
        "memory_bytes": memory_bytes,
        "is_assumed": machine.is_assumed,
        "device": need.device,
        "dtype": need.dtype,
        "quantization": need.quantization,
        "cache": need.cache,
        "frames": frame_count(shape.config, settings),
        "visual_positions": visual_positions(shape.config, settings),
        "positions": need.positions.total - need.positions.spare,
        "weight_bytes": need.weight_bytes,
        **asdict(batch_capacity(need, memory_bytes)),
    }
