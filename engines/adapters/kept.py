"""Loaded adapters, kept with the model they hang on: read once while it is warm, freed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from engines.decoder.llama import LlamaDecoder
from evprof.loaders.adapters import AdapterInfo

Loaded = TypeVar("Loaded")

_Stamp = tuple[str, tuple[tuple[str, int, int], ...]]

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
    paths = sorted(path for path in info.folder.iterdir() if path.is_file())
    files = ((path, path.stat()) for path in paths)
    return str(info.folder.resolve()), tuple((path.name, file.st_mtime_ns, file.st_size) for path, file in files)
