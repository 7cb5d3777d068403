"""What recording costs on this machine (the observer effect), as `evprof bench overhead` measured it last."""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.files.user_folders import data_folder
from evprof.core.plain import Plain

LEAST_PAIRS = 20
"""Fewer say too little to be kept."""

_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class ObserverEffect(Plain):
    """Time per token with records, over that without: the median of so many pairs, and its 95 % interval.

    `again` is the same ratio of equal things: what the machine's unrest makes of nothing.
    """

    machine: str
    shape: str
    pairs: int
    ratio: float
    low: float
    high: float
    again: float
    evprof: str
    measured: str

    @property
    def text(self) -> str:
        """ "+0.3 % (−0.1 … +0.8 %)"."""
        return f"{_percent(self.ratio)} % ({_percent(self.low)} … {_percent(self.high)} %)"

    @property
    def sentence(self) -> str:
        where = f"on {self.machine} with shape {self.shape}, evprof {self.evprof}"
        return (
            f"Time per token with evprof's records, against the same loop without: median of {self.pairs} pairs and "
            f"its 95 % interval, measured {self.measured} {where}. "
            f"Equal things differed by {_percent(self.again)} % meanwhile. "
            "Another model may differ: the shorter its steps, the larger the share. What drawing does is not in it."
        )


def observer_effect(machine: str) -> ObserverEffect | None:
    """What is known of a machine (the name of its processor or GPU); None where nothing was measured."""
    for entry in _entries():
        found = ObserverEffect.if_fitting(entry)
        if found is not None and found.machine == machine and _is_sound(found):
            return found
    return None


def keep_overhead(document: dict[str, Any], measured: str) -> Path | None:
    """Keeps what a measurement found, unless it is of too few pairs (None); `measured` is the day. Raises OSError."""
    environment, summary = document["environment"], document["summary"]
    if summary["pairs"] < LEAST_PAIRS:
        return None
    found = ObserverEffect(
        str(environment["device"]),
        str(summary["shape"]),
        int(summary["pairs"]),
        summary["instrumented_vs_off"],
        summary["instrumented_vs_off_ci95_low"],
        summary["instrumented_vs_off_ci95_high"],
        summary["a_vs_a"],
        str(environment["evprof"]),
        measured,
    )
    return _keep(found.to_json())


def _path() -> Path:
    return data_folder() / "overhead.json"


def _entries() -> list[dict[str, Any]]:
    """All that was kept; [] where nothing can be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        if _path().stat().st_size <= _MOST_BYTES:
            found = json.loads(_path().read_text(encoding="utf-8"))
            return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return []


def _keep(entry: dict[str, Any]) -> Path:
    """Keeps an entry in place of an earlier one of its machine. Raises OSError."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    others = [other for other in _entries() if other.get("machine") != entry.get("machine")]
    part.write_text(json.dumps([*others, entry], indent=1), encoding="utf-8")
    os.replace(part, path)
    return path


def _is_sound(found: ObserverEffect) -> bool:
    return all(math.isfinite(value) and 0 < value < 1000 for value in (found.ratio, found.low, found.high, found.again))


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
