"""Third-party libraries: optional ones, and known harmless messages that are muted.

transformers imports torchao whenever it is installed. Known lines are muted one by one; other messages are left
alone.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from typing import Any

from evprof.core.errors import UserError
from evprof.core.installation import how_to_add

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


EXTRA = "evprof[quant]"

LIBRARIES = {"bitsandbytes": "bitsandbytes"}
"""Library -> the module that is used of it."""


def optional_module(name: str, purpose: str) -> Any:
    """Imports `name`, a module of a library of the extra `quant`.

    Raises UserError where it is missing or does not load; `purpose` begins that sentence.
    """
    library = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(f"{purpose} needs {library}, which is not installed; {how_to_add(EXTRA)}.") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UserError(
            f"{purpose} needs {library}, which does not load here ({reason}); {how_to_add(EXTRA)}."
        ) from None
