"""The one clock: monotonic nanoseconds, shared by every process of this machine."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Returns monotonic nanoseconds; tests hand in a fake one."""

monotonic_ns: Clock = time.perf_counter_ns
"""The system's monotonic clock in ns; on Linux, macOS and Windows all processes see the same one."""
