"""How much of a weight matrix one program of a product takes, from the matrix's shape alone.

A product with few rows is a single reading of the weights: it is as fast as its loads are wide, many and evenly
spread. `docs/decode-step.md` argues the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

GROUP = 128
"""Weights in four bits that share a scale."""

FULL, INT8, INT4, FLOAT8 = 0, 8, 4, 1
"""How weights are held: in the activations' dtype, in so many bits, or (FLOAT8) as floats of eight bits."""

MULTIPROCESSORS = 132
"""Of an H100 or H200; an A100 has 108."""

_TILE_BYTES = 8192
"""Of weights, asked for together by one program."""

_WIDEST = 1024
"""Bytes of one row in a tile: two loads of a whole warp, 16 bytes a thread."""


@dataclass(frozen=True)
class Tiling:
    """Rows of the output and columns of the weights (bytes where two share one) that a program takes at once, its
    warps, and the tiles that are under way at once."""

    rows: int
    columns: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Product:
    """The product of activations [tokens, columns] with weights [rows, columns]; gated: [2 · rows, columns].

    `tokens` is 1, or 16 for any more; `itemsize` in bytes of the activations; `bits` one of FULL, INT8, INT4, FLOAT8.
    """

    tokens: int
    rows: int
    columns: int
    itemsize: int
    bits: int = FULL
    gated: bool = False

    @property
    def row_bytes(self) -> int:
        return row_bytes(self.columns, self.bits) if self.bits else self.columns * self.itemsize

    @property
    def element_bytes(self) -> int:
        """One element of the matrix as it is stored."""
        return self.itemsize if self.bits == FULL else 1

    @property
    def matrices(self) -> int:
        """Rows of weights behind one number of the output."""
        return 2 if self.gated else 1


def row_bytes(columns: int, bits: int) -> int:
    """Bytes of one packed row: as many as columns in FLOAT8, up to 16 more in eight bits, whole groups in four."""
    if bits == FLOAT8:
        return columns
    return -(-columns // 16) * 16 if bits == INT8 else -(-columns // GROUP) * GROUP // 2


def default_tiling(product: Product) -> Tiling:
    """Tiles of about 8 KiB, narrower rows before fewer programs than multiprocessors."""
    if product.tokens == 1:
        return _for_one(product)
    return _for_several(product)


def candidates(product: Product) -> list[Tiling]:
    """What is worth measuring: the default first; then shorter and longer, fewer and more tiles, and more warps.

    Few, because each is compiled: about a second. Too large ones do not launch, and are passed over.
    """
    first = default_tiling(product)
    rows, columns = first.rows, first.columns
    if product.tokens == 1:
        tried = [
            first,
            replace(first, rows=max(1, rows // 2)),
            replace(first, rows=max(1, rows // 2), columns=2 * columns),
            replace(first, rows=2 * rows, columns=max(64, columns // 2)),
            replace(first, stages=6),
            replace(first, rows=2 * rows, warps=8, stages=3),
        ]
    else:
        tried = [
            first,
            replace(first, stages=first.stages - 1),
            replace(first, rows=max(16, rows // 2), warps=2, columns=2 * columns),
            replace(first, rows=2 * rows, stages=3),
        ]
    return list(dict.fromkeys(tried))


def _for_one(product: Product) -> Tiling:
    per_row = min(_WIDEST, _power_above(product.row_bytes))
    rows = max(1, _TILE_BYTES // per_row // product.matrices)
    while rows > 4 and product.rows < 2 * MULTIPROCESSORS * rows:
        rows //= 2
    return Tiling(rows, per_row // product.element_bytes, 4, 4)


def _for_several(product: Product) -> Tiling:
    """Tensor cores take 16 tokens. Every program reads all inputs, as much as eight rows of weights and more: many rows
    where that leaves a program for each multiprocessor, and more of them the narrower the weights are."""
    if product.bits == INT4:
        columns, stages, enough = GROUP, 6, MULTIPROCESSORS
    else:
        columns = max(16, min(256 // product.element_bytes, _power_above(product.columns)))
        stages, enough = 6, 2 * MULTIPROCESSORS
    rows = 64 // product.matrices
    while rows > 32 // product.matrices and product.rows < enough * rows:
        rows //= 2
    if rows * product.matrices > 32 and product.bits != INT4:
        # 99 KiB of shared memory are all that a GeForce grants.
        stages = min(stages, 5)
    return Tiling(rows, columns, 4, stages)


def _power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()
