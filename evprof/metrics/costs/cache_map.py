"""Whose bytes a model's KV cache holds: by layer and by origin, at any moment of a run, theory beside measured.

Every position takes part in every layer, so that a layer is divided as the whole is. Parts are counted from lengths and
the configuration, in the form the cache keeps, and add up to the whole exactly; what was measured comes from the
engine, which walks the cache at the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_DRAFT, TARGET
from evprof.core.run_info import LengthFacts, ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.switches import LOSSY_CACHES
from evprof.metrics.figures.kv_cache import formula_bytes, measured_bytes
from evprof.metrics.limits.memory_need import CacheShape

SYSTEM, TEXT, VISUAL, GENERATED, DRAFTED = "system", "text", "visual", "generated", "draft"
HELD_ORIGINS = (SYSTEM, VISUAL, TEXT, GENERATED, DRAFTED)
"""What positions in use hold, in order: the template's opening words, pictures, the rest of the prompt, what the model
itself gave the answer, and what a draft proposed (accepted, or waiting for its verdict)."""

ROLLED_BACK, RESERVED = "rolled back", "reserved"
"""What is not in use: written for rejected drafts and cut off again; set aside and empty."""


@dataclass(frozen=True)
class CachePart:
    """Positions of one origin, and the bytes of all layers for them; `frame` is whose own they are (None: nobody's)."""

    origin: str
    positions: int
    nbytes: int
    frame: int | None = None


@dataclass(frozen=True)
class CacheMap:
    """One model's cache. `parts` lie in the order of the prompt and add up to `held_bytes`.

    `measured_bytes` and `layers_measured` are those of the run's end, `reserved_bytes` (empty room, beyond what is in
    use) is known from then on; `rolled_back` counts positions as far as they are known. `kind` is the kind of cache.
    """

    model: ModelFacts
    parts: tuple[CachePart, ...]
    length: int
    held_bytes: int
    kind: str
    layers_measured: tuple[int, ...] = ()
    measured_bytes: int | None = None
    reserved_bytes: int | None = None
    rolled_back: int | None = None

    @property
    def layers(self) -> int:
        """How many layers share these bytes."""
        return max(1, self.model.layers)

    def bytes_of(self, origin: str) -> int:
        return sum(part.nbytes for part in self.parts if part.origin == origin)

    @property
    def rolled_back_bytes(self) -> int | None:
        """Bytes that were written for rejected drafts, all rounds together; they are not held any more."""
        return None if self.rolled_back is None else cache_shape(self.model).kept_bytes(self.rolled_back, self.kind)

    @property
    def difference(self) -> int | None:
        """Measured less theory; 0 where the arithmetic is right."""
        return None if self.measured_bytes is None else self.measured_bytes - self.held_bytes


def cache_shape(model: ModelFacts) -> CacheShape:
    return CacheShape(model.layers, model.kv_heads, model.head_dim, model.kv_element_bytes)


def cache_map(run: RunLog, role: str | None = None, t_ns: int | None = None) -> CacheMap | None:
    """The cache of one model of a run, as it is or was at `t_ns` on the recording's clock; None while nothing tells."""
    role = role or run.info.role
    model, lengths = run.info.models.get(role), run.info.lengths.get(role)
    length = _length(run, role, t_ns)
    if model is None or lengths is None or length is None:
        return None
    kind = model.cache if model.cache in LOSSY_CACHES else "dynamic"
    held = cache_shape(model).kept_bytes(length, kind)
    counted = list(_counted(run, lengths, length))
    told = run.info.kv.get(role)
    facts = told if t_ns is None else None
    measured = measured_bytes(run, role) if t_ns is None else None
    in_use = facts.measured_bytes if facts else held
    return CacheMap(
        model,
        tuple(_parts(counted, held, length)),
        length,
        held,
        model.cache,
        layers_measured=tuple(facts.per_layer_bytes) if facts else (),
        measured_bytes=measured,
        # A static cache is set aside before the prefill; others grow.
        reserved_bytes=max(0, told.reserved_bytes - in_use) if told and (facts or model.cache == "static") else None,
        rolled_back=facts.rolled_back if facts else _rolled_back(run, role, t_ns),
    )


def reason_without(run: RunLog, role: str) -> str:
    if role not in run.info.models:
        return "No model of this run is known here."
    if role not in run.info.lengths:
        if run.info.imported is not None:
            return "The imported file does not say how long the prompt was."
        return "The prompt's length is known after preprocessing; this run has not come so far."
    return "Nothing is in the cache before the prefill."


def _length(run: RunLog, role: str, t_ns: int | None) -> int | None:
    """Positions in use: the latest that was noted; of an imported run what its formula counts."""
    rows = run.kv.get(role, [])
    if t_ns is not None:
        place = bisect_right(rows, t_ns, key=attrgetter("t_ns"))
        return rows[place - 1].length if place else None
    if rows:
        return rows[-1].length
    model, counted = run.info.models.get(role), formula_bytes(run, role)
    each = cache_shape(model).kept_bytes(1, "dynamic") if model else 0
    return counted // each if counted and each else None


def _counted(run: RunLog, lengths: LengthFacts, length: int) -> Iterator[tuple[str, int, int | None]]:
    """(origin, positions, frame) of `length` positions, in the order of the prompt."""
    left = length
    own = sum(lengths.per_frame)
    asked: list[tuple[str, int, int | None]] = [(SYSTEM, lengths.system, None)]
    asked += [(VISUAL, count, frame) for frame, count in enumerate(lengths.per_frame)]
    asked += [(VISUAL, lengths.visual - own, None), (TEXT, lengths.text, None)]
    for origin, count, frame in asked:
        taken = max(0, min(count, left))
        left -= taken
        if taken:
            yield origin, taken, frame
    fed = run.tokens[:left]
    drafted = sum(token.origin in (ORIGIN_ACCEPTED, ORIGIN_DRAFT) for token in fed)
    # What is fed and not in the answer yet waits for its verdict.
    waiting = left - len(fed) if mode_of(run.info.mode).is_paired else 0
    if left - drafted - waiting:
        yield GENERATED, left - drafted - waiting, None
    if drafted + waiting:
        yield DRAFTED, drafted + waiting, None


def _parts(counted: list[tuple[str, int, int | None]], held: int, length: int) -> Iterator[CachePart]:
    """Shares of `held` that leave nothing over: a part has the bytes up to its end less those up to its start."""
    ends = accumulate(count for _, count, _ in counted)
    start = 0
    for (origin, count, frame), end in zip(counted, ends, strict=True):
        nbytes = held * end // length - held * start // length
        yield CachePart(origin, count, nbytes, frame)
        start = end


def _rolled_back(run: RunLog, role: str, t_ns: int | None) -> int | None:
    """While a run goes on, what its rounds say the target threw away; a draft's own is told at the end."""
    if not mode_of(run.info.mode).is_paired:
        return 0
    if role != TARGET:
        return None
    return sum(turn.drafted - turn.accepted for turn in run.rounds if t_ns is None or turn.start_ns <= t_ns)
