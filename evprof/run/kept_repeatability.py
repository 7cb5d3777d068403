"""How much engine processes differ on this machine, as it was measured last: kept in the user's data folder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evprof.core.run_log import RunLog
from evprof.run.kept_entries import KeptEntries

if TYPE_CHECKING:
    from evprof.metrics.estimates.estimates import ProcessSpread

REPEATABILITY = "repeatability"
"""The session fact's name."""

_KEPT = KeptEntries("repeatability.json", ("machine", "device", "dtype"))


def kept_repeatability(machines: Collection[str]) -> list[dict[str, Any]]:
    """What is known of these machines (names of processors and GPUs); [] where nothing can be read."""
    return [entry for entry in _KEPT.read() if entry.get("machine") in machines]


def spread_for(run: RunLog, noted: Iterable[Any] = ()) -> ProcessSpread | None:
    """How much processes differ where a run was made: as sessions noted it, or as it is known here by now."""
    from evprof.metrics.estimates.repeatability import read_repeatability

    here = kept_repeatability([str(run.info.environment.get("device"))])
    return read_repeatability([*noted, here], run)


def spread_among(runs: Iterable[RunLog], facts: Mapping[str, Any] | None = None) -> ProcessSpread | None:
    """The same for the runs of a session with its facts: of the first machine that is known."""
    noted = [facts[REPEATABILITY]] if facts and REPEATABILITY in facts else []
    machines = {str(run.info.environment.get("device")): run for run in runs}
    found = (spread_for(run, noted) for run in machines.values())
    return next((spread for spread in found if spread is not None), None)


def keep_repeatability(entry: dict[str, Any]) -> Path:
    """Keeps a measurement in place of an earlier one of the same machine, device and dtype. Raises OSError."""
    return _KEPT.keep(entry)
