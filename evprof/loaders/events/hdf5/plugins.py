"""HDF5's compressing filters, which hdf5plugin brings, without its logging."""

from __future__ import annotations

import logging
from typing import Any


def register_filters() -> Any:
    """The module hdf5plugin, which registers its filters as it is imported. Raises ImportError where it is missing.

    It logs an error for each filter that it lacks, and the frozen program has none of those for pictures and fields: a
    filter that a file needs is missed when that file is opened, in a sentence.
    """
    logger = logging.getLogger("hdf5plugin")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        import hdf5plugin
    finally:
        logger.setLevel(level)
    return hdf5plugin
