"""How a tensor is called in a published checkpoint and how it is called in the module that takes it: names only."""

from __future__ import annotations

import re
from dataclasses import dataclass

_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|embeddings\.position_ids)$")


@dataclass(frozen=True)
class Naming:
    """One family's names: `prefixes` pairs of (module prefix, published prefix), longest match first."""

    prefixes: tuple[tuple[str, str], ...]

    def published(self, module_name: str) -> str:
        """The published name of a parameter of the module."""
        for module, published in self.prefixes:
            if module_name.startswith(module):
                return published + module_name.removeprefix(module)
        raise KeyError(f"there is no published name for {module_name}")

    def module(self, published_name: str) -> str | None:
        """The module's name of a published tensor, or None when the family has no such part."""
        for module, published in self.prefixes:
            if published_name.startswith(published):
                return module + published_name.removeprefix(published)
        return None


def is_old_buffer(name: str) -> bool:
    """Whether a stored tensor is a table older transformers wrote and every release can compute: safe to skip."""
    return _BUFFERS.search(name) is not None
