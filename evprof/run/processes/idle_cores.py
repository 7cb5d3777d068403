"""How much of the machine's processors nobody uses, as the operating system counts it."""

from __future__ import annotations

import os
import time


class IdleCores:
    """Looks from time to time how long the processors have idled since."""

    def __init__(self) -> None:
        self._idle_s = 0.0
        self._looked_s = 0.0

    def since_last(self) -> float:
        """How many processors had nothing to do since the last call, on the mean; 0 at the first call, and where this
        process may not use all of the machine's, for then nobody knows whose they are."""
        import psutil  # not at the window's start

        from evprof.loaders.videos.track import usable_threads

        if usable_threads() < (os.cpu_count() or 1):
            return 0.0
        times, now_s = psutil.cpu_times(), time.monotonic()
        idle_s = times.idle + getattr(times, "iowait", 0.0)
        gained_s, self._idle_s = idle_s - self._idle_s, idle_s
        past_s, self._looked_s = now_s - self._looked_s, now_s
        return max(0.0, gained_s / past_s) if past_s and gained_s < idle_s else 0.0
