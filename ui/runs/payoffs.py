"""Whether speculation paid, for every line of a growing list of runs: repeats of each other share one answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from evprof.core.run_log import RunLog
from evprof.metrics.configurations.baselines import is_counted, repeat_key
from evprof.metrics.speculation.payoff import Payoff, payoff_over
from evprof.run.kept_repeatability import spread_for


class Payoffs:
    """Worked out again for all when one more run counts, and only for what is asked about."""

    def __init__(self) -> None:
        self.counted = 0
        self._runs: Mapping[int, RunLog] = {}
        self._keys: dict[int, Hashable] = {}
        self._pools: dict[Hashable, list[RunLog]] = {}
        self._known: dict[Hashable, Payoff | None] = {}

    def look(self, runs: Mapping[int, RunLog]) -> None:
        """Takes the session's runs, of which some may have ended since."""
        self._runs = runs
        counted = [run for run in runs.values() if is_counted(run.info)]
        if len(counted) == self.counted:
            return
        self.counted = len(counted)
        self._known.clear()
        self._pools.clear()
        for run in counted:
            if run.run_id not in self._keys:
                self._keys[run.run_id] = repeat_key(run.info)
            self._pools.setdefault(self._keys[run.run_id], []).append(run)

    def of(self, run: RunLog) -> Payoff | None:
        """Of a run that drafts and counts, with all its repeats; None without a baseline."""
        key = self._keys[run.run_id]
        if key not in self._known:
            self._known[key] = payoff_over(self._pools[key], self._runs.values(), spread_for(run))
        return self._known[key]
