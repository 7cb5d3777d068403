"""Loaded adapters, kept with the model they hang on: read once while it is warm, freed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from engines.decoder.llama import LlamaDecoder
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo

Loaded = TypeVar("Loaded")

_Stamp = tuple[str, tuple[int, int], tuple[int, int]]

_held: WeakKeyDictionary[LlamaDecoder, dict[str, tuple[_Stamp, Any]]] = WeakKeyDictionary()


def kept(info: AdapterInfo, model: LlamaDecoder, load: Callable[[], Loaded]) -> Loaded:
    """What `load` gives, or gave before for the same files; the last one of each kind stays.

    It must not hold `model` itself, which would then never be freed. Raises what `load` raises.
    """
    stamp = _stamp(info)
    found = _held.setdefault(model, {})
    if info.kind in found and found[info.kind][0] == stamp:
        held: Loaded = found[info.kind][1]
        return held
    found.pop(info.kind, None)
    made = load()
    found[info.kind] = stamp, made
    return made


def _stamp(info: AdapterInfo) -> _Stamp:
    """Which files these are: an adapter trained again is another one."""
    files = [path.stat() if path.is_file() else None for path in (info.folder / DESCRIPTION, info.tensors_path)]
    told, tensors = ((0, 0) if file is None else (file.st_mtime_ns, file.st_size) for file in files)
    return str(info.folder.resolve()), told, tensors
