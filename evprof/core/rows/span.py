"""A measured interval of a run as an object, for who looks at a few of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from evprof.core.records import COVERS, TensorRecord
from evprof.core.rows.span_columns import is_stage_name


@dataclass
class Span:
    """A measured interval as known so far. Provisional until settled: then start and end are device times."""

    span_id: int
    parent_id: int
    role: str
    name: str
    start_ns: int
    end_ns: int | None = None
    is_settled: bool = False
    host_start_ns: int = 0
    host_end_ns: int | None = None
    tensors: list[TensorRecord] = field(default_factory=list)

    @property
    def duration_ns(self) -> int | None:
        """Length in ns, None while it runs."""
        return None if self.end_ns is None else self.end_ns - self.start_ns

    @property
    def covers(self) -> tuple[str, ...]:
        """The stages this one interval holds: itself, or several that imported data measured in one piece."""
        return tuple(self.name.split(COVERS))

    @property
    def stage_name(self) -> str:
        """The stage it is told under: the last one that it covers."""
        return self.covers[-1]

    @property
    def is_stage(self) -> bool:
        """Whether this is one or several of the five stages rather than a part of one."""
        return self.parent_id < 0 and is_stage_name(self.name)
