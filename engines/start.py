"""The engines of this process; what makes them imports torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from evprof.core.clock import monotonic_ns
from evprof.core.units import ms_from_ns

if TYPE_CHECKING:
    from evprof.core.protocols import Engine
    from evprof.run.switches.batches import BatchEngine


def make_engine() -> Engine:
    """The engine of this process; imports torch, and knows how long that took."""
    # The profiler's library otherwise writes "USDT: ... profiler_start" among our own lines; it asks when it is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    began_ns = monotonic_ns()
    from engines.engine import LocalEngine

    return LocalEngine(import_ms=ms_from_ns(monotonic_ns() - began_ns))


def make_batch_engine() -> BatchEngine:
    """What answers several prompts at once in this process; imports torch."""
    from engines.batches.engine import LocalBatchEngine

    return LocalBatchEngine()
