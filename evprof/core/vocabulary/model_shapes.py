"""The sizes of a model as plain numbers: what arithmetic on operations and bytes needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TextShape:
    """A Llama's sizes. `head_dim` · `heads` need not be `hidden`; `is_tied`: the head is the embedding table."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    is_tied: bool = False

    @property
    def layer_weights(self) -> int:
        """Elements of all layers' matrices: queries and output, keys and values, the MLP's three."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def head_weights(self) -> int:
        return self.vocabulary * self.hidden

    @property
    def norm_weights(self) -> int:
        """Elements of the norms: two a layer and the last."""
        return (2 * self.layers + 1) * self.hidden

    @property
    def streamed_weights(self) -> int:
        """Elements every step reads: all but the embedding table, of which a step gathers one row."""
        return self.layer_weights + self.norm_weights + self.head_weights

    @property
    def parameters(self) -> int:
        return self.streamed_weights + (0 if self.is_tied else self.head_weights)


@dataclass(frozen=True)
class VisionShape:
    """A CLIP tower and what follows it, for `frames` frames.

    `layers` are those whose output is used; `kept` the tokens of a frame that go on to the language model, `projected`
    those that go through the projector where they are pooled after it (None: the same); `projections` the (in, out)
    of the linear layers after the tower.
    """

    frames: int
    layers: int
    width: int
    intermediate: int
    patch: int
    patches: int
    kept: int
    projections: tuple[tuple[int, int], ...]
    channels: int = 3
    projected: int | None = None
