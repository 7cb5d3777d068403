"""Whether speculation paid, for every line of a growing list of runs: repeats of each other share one answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from evprof.core.run_log import RunLog

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff


class Payoffs:
    """Worked out again for all when one more run counts or one that counts is described anew, and only for what is
    asked about."""

    def __init__(self) -> None:
        self._state: object = None
        self._is_stale = False
        self._runs: Mapping[int, RunLog] = {}
        self._keys: dict[int, Hashable] = {}
        self._pools: dict[Hashable, list[RunLog]] = {}
        self._known: dict[Hashable, Payoff | None] = {}

    def forget(self) -> None:
        """Another session has other runs of the same numbers."""
        self._state, self._runs, self._is_stale = None, {}, False
        for known in (self._keys, self._pools, self._known):
            known.clear()

    def look(self, runs: Mapping[int, RunLog]) -> None:
        """Takes the session's runs, of which some may have ended since, or been deleted, or had a baseline chosen."""
        self._runs, self._is_stale = runs, True

    @property
    def state(self) -> object:
        """Another where something else may be the answer."""
        self._look()
        return self._state

    def _look(self) -> None:
        """Looks at the runs, once somebody asks: of very many runs it takes a moment."""
        from evprof.metrics.configurations.baselines import is_counted, repeat_key

        if not self._is_stale:
            return
        self._is_stale, runs = False, self._runs
        counted = [run for run in runs.values() if is_counted(run.info)]
        state = (len(counted), sum(run.version for run in counted))
        if state == self._state:
            return
        self._state = state
        self._known.clear()
        self._pools.clear()
        for run in counted:
            if run.run_id not in self._keys:
                self._keys[run.run_id] = repeat_key(run.info)
            self._pools.setdefault(self._keys[run.run_id], []).append(run)

    def pool_of(self, run: RunLog) -> list[RunLog]:
        """The repeats of a run that count, itself among them; just the run where none does."""
        self._look()
        return self._pools.get(self._key(run)) or [run]

    def of(self, run: RunLog) -> Payoff | None:
        """Of a run that drafts, with all its repeats; None without a baseline."""
        from evprof.metrics.speculation.payoff import payoff_over

        self._look()
        key = self._key(run)
        if key not in self._pools:
            return payoff_over([run], self._runs.values())
        if key not in self._known:
            self._known[key] = payoff_over(self._pools[key], self._runs.values())
        return self._known[key]

    def _key(self, run: RunLog) -> Hashable:
        from evprof.metrics.configurations.baselines import repeat_key

        return self._keys[run.run_id] if run.run_id in self._keys else repeat_key(run.info)
