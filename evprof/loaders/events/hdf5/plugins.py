"""HDF5's compressing filters, which hdf5plugin brings, kept quiet: neither logging nor standard output is theirs."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

_redirecting = threading.Lock()


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


@contextmanager
def nothing_printed() -> Iterator[None]:
    """Keeps what a filter prints through C from standard output, where it would be in the middle of a document.

    What another thread prints meanwhile is lost, too.
    """
    with _redirecting:
        try:
            kept = os.dup(1)
        except OSError:  # there is no standard output
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)


def _flush() -> None:
    """Writes out what C has in its buffers."""
    # Where the C library has another name, its line comes late.
    with suppress(OSError, AttributeError):
        ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None).fflush(None)
