"""Lets the C library keep the memory of arrays that decoders make and forget block by block."""

from __future__ import annotations

import numpy as np

_KEPT_BYTES = 24 << 20


def keep_scratch() -> None:
    """Call before decoding; costs microseconds and takes no memory.

    glibc returns freed memory to the system above thresholds that start at 128 KiB and grow to what was freed last.
    Until then every array of a block is made of new pages, which the system must clear: a first EVT3 recording took
    three times as long (118,000 page faults instead of 3,000). Elsewhere this does nothing.
    """
    np.empty(_KEPT_BYTES, np.uint8)
