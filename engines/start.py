"""The engines of this process; what makes them imports torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from evprof.core.errors import UserError
from evprof.core.installation import missing_package
from evprof.core.protocols import monotonic_ns
from evprof.core.units import ms_from_ns

if TYPE_CHECKING:
    from evprof.core.protocols import Engine


def make_engine() -> Engine:
    """The engine of this process; imports torch, and knows how long that took. Raises UserError without torch."""
    # The profiler's library otherwise writes "USDT: ... profiler_start" among our own lines; it asks when it is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    began_ns = monotonic_ns()
    try:
        from engines.engine import LocalEngine
    except ModuleNotFoundError as error:
        if (error.name or "engines").partition(".")[0] == "engines":
            raise
        raise UserError(missing_package(str(error.name))) from None

    return LocalEngine(import_ms=ms_from_ns(monotonic_ns() - began_ns))
