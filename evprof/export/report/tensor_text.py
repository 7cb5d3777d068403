"""Tensors of a span as text: names, shapes and dtypes; several numbered ones of one shape are told as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from evprof.core.records import TensorRecord

_NUMBERED = re.compile(r"^(.*?)\s*\d+$")


def unnumbered(name: str) -> str:
    """ "frame" of "frame 3"."""
    found = _NUMBERED.match(name)
    return found[1] if found else name


def tensors_text(records: Iterable[TensorRecord], direction: str, *, has_dtype: bool = False) -> str:
    """`pixel_values [5, 3, 64, 64], text_ids [55]`, `5 × event frame [180, 240, 3]`."""
    told = Counter(
        f"{unnumbered(record.name)} [{', '.join(part.strip() for part in record.shape.split(','))}]"
        + (f" {record.dtype}" if has_dtype else "")
        for record in records
        if record.direction == direction
    )
    return ", ".join(f"{count} × {text}" if count > 1 else text for text, count in told.items())
