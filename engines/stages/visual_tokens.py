"""How many positions of a prompt come from the input, known before any picture is encoded; arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass

from engines.stages.visual_pruning import kept_count


@dataclass(frozen=True)
class VisualCounts:
    """Visual positions: `per_frame` are each frame's own, `shared` belong to all frames together."""

    per_frame: tuple[int, ...]
    shared: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.per_frame) + self.shared

    def first(self, count: int) -> VisualCounts:
        """Those among the first `count` positions; a frame's own come before what is shared."""
        left = count
        own = []
        for positions in self.per_frame:
            own.append(min(positions, left))
            left -= own[-1]
        return VisualCounts(tuple(own), min(self.shared, left))


def framewise_counts(frames: int, tokens: int, keep: float = 1.0) -> VisualCounts:
    """Every frame brings its `tokens`, or the kept share of them."""
    return VisualCounts((kept_count(tokens, keep),) * frames)


def pooled_counts(frames: int, tokens: int, keep: float = 1.0) -> VisualCounts:
    """EventGPT's pooling: one mean per frame, and for all frames together one mean per token (or its kept share)."""
    return VisualCounts((1,) * frames, kept_count(tokens, keep))
