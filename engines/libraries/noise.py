"""Keeps libraries from writing about themselves into our output while they are imported.

transformers imports torchao whenever it is installed, asked for or not. What is muted is named line by line;
every other message of these libraries is left alone.
"""

from __future__ import annotations

import logging
import warnings

_KNOWN = {
    # Kernels built for other machines than this one; torchao computes without them.
    "torchao": "Failed to load",
    # Its integer products for GPUs; a build of torch for CPUs comes without Triton.
    "torchao.kernel.intmm": "Detected no triton",
    # torchao registers enums in a way that a newer torch no longer needs.
    "torch.utils._pytree": "is an Enum subclass and is now natively supported",
    # A faster CPU kernel that would have to be downloaded while the program runs.
    "bitsandbytes.backends.cpu.ops": "Failed to load CPU gemm_4bit_forward",
}
"""Logger -> what its known harmless lines contain."""

_KNOWN_WARNING = r"\w+ does not implement _stable_hash_for_caching"
"""A compiled step over weights of a library's own kind is found again by the parts of these instead."""


class _WithoutKnown(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """False for the one line that is known of this logger."""
        return _KNOWN[record.name] not in record.getMessage()


def mute_known_lines() -> None:
    """Once per process, before transformers is imported; again does no harm."""
    for name in _KNOWN:
        logger = logging.getLogger(name)
        if not any(isinstance(present, _WithoutKnown) for present in logger.filters):
            logger.addFilter(_WithoutKnown())
            warnings.filterwarnings("ignore", message=_KNOWN_WARNING, category=UserWarning)
