"""What the KV cache takes: bytes by formula and by origin, from configuration and lengths, never from the cache.

The measured bytes come from the engine, which walks the cache; that the two agree is the check.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evprof.core.records import DRAFT, ORIGIN_ACCEPTED, TARGET
from evprof.core.rows.spans import Span
from evprof.core.run_info import LoadingFacts, ModelFacts
from evprof.core.run_log import RunLog
from evprof.metrics.figures.decoding import answer_length
from evprof.metrics.figures.kept import kept
from evprof.metrics.figures.stages import span_ms


def bytes_per_position(model: ModelFacts) -> int:
    """2 (keys and values) · layers · kv_heads · head_dim · bytes of an element; 0 where the shape is not told."""
    return 2 * model.layers * model.kv_heads * model.head_dim * model.kv_element_bytes


def formula_bytes(run: RunLog, role: str | None = None) -> int | None:
    """2·layers·kv_heads·(input + output - 1)·head_dim·bytes; the last token is never fed back, hence the - 1.

    For the draft of a speculative run the input is its own prompt and the output the answer. Imported files without
    token ids give their caches after the prefill, so that nothing is added to the input. None until both lengths and
    the model are known.
    """
    role = role or run.info.role
    model, lengths = run.info.models.get(role), run.info.lengths.get(role)
    if model is None or lengths is None or not bytes_per_position(model):
        return None
    if not answer_length(run):
        is_told = run.info.imported is not None and "kv_cache_bytes" in run.info.imported.figures
        return bytes_per_position(model) * lengths.input if is_told else None
    return bytes_per_position(model) * (lengths.input + answer_length(run) - 1)


def bytes_by_origin(run: RunLog, role: str | None = None) -> dict[str, int | None]:
    """Bytes of the cache by what filled them; system, text, visual and generated add up to the formula.

    `draft_accepted` is the part of `generated` that a draft proposed; `draft_rolled_back` was written for drafted
    tokens that were rejected and is not part of the sum. All in the unquantized form the formula counts in.
    """
    role = role or run.info.role
    model, lengths, kv = run.info.models.get(role), run.info.lengths.get(role), run.info.kv.get(role)
    each = (bytes_per_position(model) or None) if model else None
    positions: dict[str, int | None] = {
        "system": lengths.system if lengths else None,
        "text": lengths.text if lengths else None,
        "visual": lengths.visual if lengths else None,
        "generated": answer_length(run) - 1 if answer_length(run) else None,
        "draft_accepted": _accepted_positions(run),
        "draft_rolled_back": kv.rolled_back if kv else None,
    }
    return {name: None if each is None or count is None else each * count for name, count in positions.items()}


def visual_bytes_per_frame(run: RunLog, role: str | None = None) -> list[int] | None:
    """The visual bytes that are one frame's own, frame by frame; what frames share is not among them."""
    role = role or run.info.role
    model, lengths = run.info.models.get(role), run.info.lengths.get(role)
    if model is None or lengths is None:
        return None
    each = bytes_per_position(model)
    return [each * count for count in lengths.per_frame]


@kept()
def _accepted_positions(run: RunLog) -> int | None:
    """Positions of accepted drafts: of all but the last token, which is never fed back."""
    if not run.tokens:
        return None
    return run.count_of_origin(ORIGIN_ACCEPTED) - (run.tokens[-1].origin == ORIGIN_ACCEPTED)


def measured_bytes(run: RunLog, role: str | None = None) -> int | None:
    """Bytes in use at the end of the run, walked in the cache's tensors; None until the run has ended."""
    kv = run.info.kv.get(role or run.info.role)
    if kv is None and run.info.imported is not None and role in (None, run.info.role):
        told = run.info.imported.figures.get("kv_cache_bytes")
        return None if told is None else round(told)
    return kv.measured_bytes if kv else None


def live_bytes(run: RunLog, role: str | None = None) -> int | None:
    """Latest known bytes: measured once the run is over, before that the running arithmetic of its KV records."""
    measured = measured_bytes(run, role)
    return measured if measured is not None else _live_bytes(run, role or run.info.role)


@kept((DRAFT,), (TARGET,))
def _live_bytes(run: RunLog, role: str) -> int | None:
    records = run.kv.get(role)
    return records[-1].nbytes if records else None


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
