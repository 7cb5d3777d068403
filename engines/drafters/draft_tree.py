"""Shapes of draft trees: which node hangs below which, and which may look at which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engines.tokens.uploads import moved


@dataclass(frozen=True)
class Level:
    """`width` children for each node above, `nodes` in all."""

    width: int
    nodes: int


class StaticTree:
    """What is the same for every tree of these widths: nodes level by level, siblings side by side."""

    def __init__(self, widths: Sequence[int]) -> None:
        self.levels: list[Level] = []
        parents: list[int] = []
        above, nodes = [-1], 0
        for width in widths:
            parents += [parent for parent in above for _ in range(width)]
            above = list(range(nodes, nodes + len(above) * width))
            nodes += len(above)
            self.levels.append(Level(width, len(above)))
        self.parents = tuple(parents)
        self._seen = torch.eye(nodes, dtype=torch.bool)
        for node, parent in enumerate(parents):
            if parent >= 0:
                self._seen[node] |= self._seen[parent]
        self._masks: dict[int, torch.Tensor] = {}

    def mask(self, depth: int, base: int, device: torch.device) -> torch.Tensor | None:
        """What the nodes of level `depth` - 1 may see, [nodes, base + all nodes so far]: their own branch."""
        level = self.levels[depth - 1]
        end = sum(each.nodes for each in self.levels[:depth])
        if end == depth:
            return None  # one branch so far
        own = self._masks.get(depth)
        if own is None:
            own = self._masks[depth] = moved(self._seen[end - level.nodes : end, :end], device)
        return torch.cat([own.new_ones(level.nodes, base), own], dim=1)
