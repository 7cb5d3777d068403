"""What stage load of a run read, from where and how fast; what was not measured is None."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.rows.span import Span
from evprof.core.run_info import LoadingFacts
from evprof.core.run_log import RunLog
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.stages import span_ms

EVENT_PARTS = ("open", "read")
"""Parts of stage load that bring events onto the host; moving them by a rectification map is not among them."""

FRAME_PARTS = ("open", "demux", "decode", "colour", "frame cache", "read")
"""Parts of stage load that bring pictures onto the host."""


@dataclass(frozen=True)
class Loading:
    """Stage load of one model: its facts, the time of each part in ms in the order they began, and rates.

    `events_per_s` and `frames_per_s` count EVENT_PARTS and FRAME_PARTS, opening included.
    """

    facts: LoadingFacts
    part_ms: dict[str, float] = field(default_factory=dict)
    events_per_s: float | None = None
    frames_per_s: float | None = None

    @property
    def from_disk_share(self) -> float | None:
        """Share of the bytes asked for that came from a disk, 1 at most: disks are read ahead in larger pieces."""
        asked, fetched = self.facts.bytes_read, self.facts.bytes_from_disk
        return None if not asked or fetched is None else min(1.0, fetched / asked)


def loading_of(run: RunLog, role: str | None = None) -> Loading | None:
    """Stage load of `role` (the answering model by default); None where nothing tells what it read."""
    role = role or run.info.role
    facts = run.info.loading.get(role)
    if facts is None:
        return None
    parts = load_parts_ms(run, role)
    return Loading(facts, parts, _rate(facts.events, parts, EVENT_PARTS), _rate(facts.frames, parts, FRAME_PARTS))


def loading_document(run: RunLog, role: str | None = None) -> dict[str, Any] | None:
    """The same as plain values, as they stand in the JSON of a run; None where nothing tells what was read."""
    found = loading_of(run, role)
    if found is None:
        return None
    return found.facts.to_json() | {"events_per_s": found.events_per_s, "frames_per_s": found.frames_per_s}


@kept((DRAFT,), (TARGET,))
def load_parts_ms(run: RunLog, role: str) -> dict[str, float]:
    """Time of the parts of a model's stage load."""
    return part_times_ms(run, run.stage("load", role))


def part_times_ms(run: RunLog, stage: Span | None) -> dict[str, float]:
    """Time of a stage's parts in ms; parts of one name are told together, in the order they first began."""
    found: dict[str, float] = {}
    if stage is None:
        return found
    for child in sorted(run.children(stage.span_id), key=lambda span: span.start_ns):
        duration = span_ms(child)
        if duration is not None:
            found[child.name] = found.get(child.name, 0.0) + duration
    return found


def _rate(count: int | None, parts: dict[str, float], names: tuple[str, ...]) -> float | None:
    """Things per second over the parts that are there."""
    spent_ms = sum(parts.get(name, 0.0) for name in names)
    return None if not count or spent_ms <= 0 else count / spent_ms * 1000
