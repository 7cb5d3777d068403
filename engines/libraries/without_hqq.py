"""Keeps transformers from importing hqq, which it does wherever hqq is installed: a fifth of an engine's start.

Our own caches import it when they are asked for. Those of transformers that are built on it say that it is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_WHERE = "transformers.cache_utils"


class _WithoutHqq(Loader):
    """Loads the module as its own loader does, while hqq seems not to be there."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        utils: Any = importlib.import_module("transformers.utils")
        answer = utils.is_hqq_available
        utils.is_hqq_available = lambda *_: False
        try:
            self._loader.exec_module(module)
        finally:
            utils.is_hqq_available = answer


class _Finder(MetaPathFinder):
    """Finds that one module, once."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """None for every other module."""
        if name != _WHERE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _WithoutHqq(spec.loader)
        return spec


def leave_hqq_out() -> None:
    """Once per process, before transformers is imported; after that, or again, does nothing."""
    if _WHERE not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
