"""What quantized weights and caches take, from their shapes alone: arithmetic for before anything is loaded.

It knows no tensor and no library; that the packed tensors agree is a test of whoever packs them.
"""

from __future__ import annotations

GROUP = 64
"""Weights (or cached numbers) that share one scale in nf4 and in the hqq caches."""

RESIDUAL = 2 * GROUP
"""The latest positions of an hqq cache that wait as they came."""

_ROW_SCALE_BYTES = 4
"""A row's scale in int8 and fp8 is float32."""

_INT4_GROUP, _INT4_SCALE_BYTES = 128, 2
"""int4's scales are bfloat16, whatever the model computes in."""

_NF4_TABLE_BYTES = 16 * 4
"""NF4's sixteen levels, float32, once per matrix."""


def weight_bytes(kind: str | None, rows: int, columns: int, itemsize: int) -> int:
    """Bytes of one Linear's weight [rows, columns] whose dtype takes `itemsize` bytes; None: not quantized.

    int8: one byte each up to 16 columns, and a float32 scale per row. int4: half a byte and a scale per group of 128
    columns. nf4: half a byte and a float32 maximum per GROUP of the flattened matrix. fp8: one byte each and a float32
    scale per row.
    """
    match kind:
        case None:
            return rows * columns * itemsize
        case "int8":
            return rows * (_up_to(columns, 16) + _ROW_SCALE_BYTES)
        case "fp8":
            return rows * (columns + _ROW_SCALE_BYTES)
        case "int4":
            return rows * -(-columns // _INT4_GROUP) * (_INT4_GROUP // 2 + _INT4_SCALE_BYTES)
        case "nf4":
            count = rows * columns
            return -(-count // 2) + -(-count // GROUP) * 4 + _NF4_TABLE_BYTES
        case _:
            raise ValueError(f"unknown quantization: {kind}")


def cached_bytes(kind: str, elements: int, itemsize: int) -> float:
    """Bytes that `elements` cached keys or values take; `kind` is a kind of cache, `itemsize` the model's dtype.

    dynamic, static: as they come. fp8: a byte each. hqq8, hqq4: a byte or half of one, and per GROUP a scale and a zero
    point in the model's dtype. Scales that fp8 keeps per layer are not counted: they do not grow with the length.
    """
    match kind:
        case "auto" | "dynamic" | "static":
            return float(elements * itemsize)
        case "fp8":
            return float(elements)
        case "hqq8":
            return elements * (1 + 2 * itemsize / GROUP)
        case "hqq4":
            return elements * (0.5 + 2 * itemsize / GROUP)
        case _:
            raise ValueError(f"unknown kind of cache: {kind}")


def _up_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple
