"""Hands events to the writer of a recipe's format."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.run.conversion.recipe import ConversionRecipe

_WRITERS: dict[str, tuple[str, str]] = {
    "npy": ("evprof.loaders.writers.npy", "write_npy"),
    "npz": ("evprof.loaders.writers.npz", "write_npz"),
    "h5": ("evprof.loaders.writers.hdf5", "write_dsec"),
    "evt3": ("evprof.loaders.writers.raw", "write_evt3"),
    "evt2": ("evprof.loaders.writers.raw", "write_evt2"),
    "dat": ("evprof.loaders.writers.raw", "write_dat"),
}


def write_events(
    path: Path, chunks: Iterable[EventArray], recipe: ConversionRecipe, *, width: int | None, height: int | None
) -> int:
    """Writes all events in the recipe's format; returns how many. Raises UserError when there are none."""
    module, name = _WRITERS[recipe.raw_format if recipe.to == "raw" else recipe.to]
    write: Callable[..., int] = getattr(importlib.import_module(module), name)
    options: dict[str, Any] = {
        "npy": {"layout": recipe.layout},
        "npz": {"compressed": recipe.compressed},
        "h5": {"compression": recipe.compression},
    }
    return write(path, _some(path, chunks), width=width, height=height, **options.get(recipe.to, {}))


def _some(path: Path, chunks: Iterable[EventArray]) -> Iterable[EventArray]:
    """The chunks; raises UserError, before anything is finished, when there is not one event."""
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if len(chunk):
            yield chunk
    if total == 0:
        raise UserError(f"{path}: there are no events to write; choose another part.")
