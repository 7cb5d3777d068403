"""Files of a LLaVA benchmark that ran no model: its script sleeps for times that it draws itself.

Read in that script (class MockLLaVAModel): encoding sleeps 80 ms + 15 ms per frame + up to 30 ms, generating sleeps
500 ms + 10 ms per token + up to 100 ms; frames are one-coloured pictures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from evprof.loaders.legacy.checks import finite, mapping
from evprof.loaders.legacy.reading import Preview, Published, flattened
from evprof.loaders.legacy.summary import SummaryReader, known, series_of

_MOCK = (
    "No model ran: the script stands in for LLaVA with MockLLaVAModel, which sleeps 80 ms + 15 ms per frame and "
    "500 ms + 10 ms per token; these times are of that formula and make no runs"
)
_PARTS = ("step_statistics", "total_execution_stats")


class MockSteps(SummaryReader):
    """The family: one video length, or several under names of their own."""

    name = "mock LLaVA steps"
    looks_for = "step_statistics with total_times or total_execution_stats"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its steps."""
        return bool(_benchmarks(preview.head))

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        told: dict[str, float] = {}
        computed: dict[str, float | None] = {}
        empty: set[str] = set()
        lists: dict[str, object] = {}
        for name, own in _benchmarks(preview.head).items():
            dot = f"{name}." if name else ""
            told |= flattened({f"{dot}{part}": own[part] for part in _PARTS if part in own})
            groups = {f"{dot}step_statistics.{step}": values for step, values in mapping(own.get(_PARTS[0])).items()}
            groups |= {f"{dot}{_PARTS[1]}": own.get(_PARTS[1])}
            for group, values in groups.items():
                computed |= {f"{group}.{key}": value for key, value in _again(mapping(values)).items()}
                lists[group.removeprefix("step_statistics.")] = mapping(values).get("durations")
                if finite(mapping(values).get("count", mapping(values).get("num_runs"))) == 1:
                    empty.add(f"{group}.std_dev")
            if isinstance(own.get("total_times"), list):
                lists[f"{dot}total_times"] = own["total_times"]
        series = series_of("run", lists)
        published = Published(told=told, computed=known(computed), over_nothing=frozenset(empty), series=series)
        return published, (_MOCK,)


def _benchmarks(head: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Under "" where the file is of one video length."""
    if _is_one(head):
        return {"": head}
    return {str(name)[:80]: own for name, own in head.items() if isinstance(own, dict) and _is_one(own)}


def _is_one(value: dict[str, Any]) -> bool:
    return isinstance(value.get(_PARTS[0]), dict) and ("total_times" in value or _PARTS[1] in value)


def _again(values: dict[str, Any]) -> dict[str, float | None]:
    """Mean, ends and spread (n - 1) of the single runs; of one or two runs also without them, from their ends."""
    listed = values.get("durations")
    durations = [
        number for entry in (listed if isinstance(listed, list) else []) if (number := finite(entry)) is not None
    ]
    count, low, high = (finite(values.get(key)) for key in ("count", "minimum", "maximum"))
    if not durations and count in (1, 2) and low is not None and high is not None:
        durations = [low, high][: int(count)]
    if not durations:
        return {}
    mean = math.fsum(durations) / len(durations)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in durations) / max(1, len(durations) - 1))
    found: dict[str, float | None] = {
        "average": mean,
        "minimum": min(durations),
        "maximum": max(durations),
        "std_dev": spread if len(durations) > 1 else None,
    }
    return found | ({"num_runs": float(len(durations))} if isinstance(listed, list) else {})
