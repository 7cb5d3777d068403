"""The records an engine appends while it works: small, flat, in order of happening.

Every record type is one stream of the Recording and one kind of chunk in the session file. The field annotations are
the column types. Records know nothing of models, files or windows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from evprof.core.plain import Plain

BEGIN, END, SETTLED = 0, 1, 2
"""Phases of a span: dispatched; returned to the host; device times known (start_ns and end_ns are the device's)."""

DRAFT, TARGET = "draft", "target"
"""Roles a model plays in a run."""

ORIGIN_TARGET, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_DRAFT, ORIGIN_REJECTED = (
    "target",
    "accepted",
    "bonus",
    "draft",
    "rejected",
)
"""Where a token came from. Rejected ones were drafted and thrown away: shown struck through, absent from the text."""

STAGES = ("load", "preprocess", "vision", "prefill", "decode")
"""The five stages, in order."""

COVERS = "+"
"""Joins the names of stages that imported data measured as one interval: "vision+prefill+decode"."""


class SpanRecord(NamedTuple):
    """One phase of a measured interval.

    `span_id` is unique within the run; `parent_id` is -1 for a stage. `role` says whose work it is, `name` is one of
    STAGES for a stage (several joined by COVERS for an interval that holds them all) and a child's own name (`tower`,
    `projector`, `draft`, `verify`, …) otherwise.
    begin: start_ns is the host time of dispatch, end_ns = -1. end: end_ns is the host time of return.
    settled: both are device times on the host's clock, equal to the host's on a CPU.
    """

    run_id: int
    span_id: int
    parent_id: int
    phase: int
    role: str
    name: str
    start_ns: int
    end_ns: int


class TensorRecord(NamedTuple):
    """An input or output of a span: `direction` is "in" or "out", `shape` is text such as "1,641,4096"."""

    run_id: int
    span_id: int
    direction: str
    name: str
    shape: str
    dtype: str
    nbytes: int


NO_TOKEN_ID = -2
"""The `token_id` of a token of which an imported file tells the time alone."""


class TokenRecord(NamedTuple):
    """One token of the answer, or one that was drafted and rejected.

    `position` is its place among the generated tokens, from 0 (a rejected one has the place it was drafted for).
    `origin` is one of the ORIGIN_ names; `round_index` is -1 outside speculation. `t_ns` is when the host knew it.
    `piece` is the vocabulary's text for it, spaces as spaces and raw bytes as `<0xE2>`; see `evprof.core.texts`.
    """

    run_id: int
    role: str
    position: int
    token_id: int
    origin: str
    round_index: int
    t_ns: int
    piece: str

    @property
    def known_id(self) -> int | None:
        return None if self.token_id == NO_TOKEN_ID else self.token_id


class RoundRecord(NamedTuple):
    """One draft-verify turn. `draft_ns`, `verify_ns`, `rollback_ns` are durations; `start_ns` is on the clock.

    `drafted_ids` is text such as "12,7,901" ("" for none); of a tree, all its nodes, level by level. `hidden` is 1 when
    the drafting ran inside the target's prefill. `emitted` counts the tokens that reached the answer, the target's own
    included. `depth` is how many tokens in a row were drafted, of a tree its levels; `judged` how many the target came
    to on its way: those accepted, and the one it put another in place of. -1 in sessions of formats before 7.
    """

    run_id: int
    round_index: int
    start_ns: int
    draft_ns: int
    verify_ns: int
    rollback_ns: int
    drafted: int
    accepted: int
    emitted: int
    drafted_ids: str
    hidden: int
    depth: int = -1
    judged: int = -1


class JudgementRecord(NamedTuple):
    """What draft and target thought of one drafted token that was judged: the accepted ones and the first rejected.

    `place` counts from 0 within the round, `position` among the generated tokens. `target_id` is what the answer got
    there, `draft_id` what was drafted (equal where `accepted` is 1). Probabilities are in millionths, -1 where a model
    does not give any: `draft_ppm` the draft's for `draft_id`, `cross_ppm` the target's for `draft_id`, `target_ppm`
    the target's for `target_id`. `overlap_ppm` is the sum of min(p, q) over the vocabulary: the chance that sampling
    would accept here, 1 - TV(p, q) (arXiv 2211.17192). Probabilities are those that were drawn from; at temperature
    0 those of temperature 1.
    """

    run_id: int
    round_index: int
    place: int
    position: int
    draft_id: int
    target_id: int
    accepted: int
    draft_ppm: int
    cross_ppm: int
    target_ppm: int
    overlap_ppm: int
    draft_piece: str
    target_piece: str


MOST_ALTERNATIVES = 5
"""Of one token."""

_BETWEEN = "\x1f"
"""Between pieces; raw bytes are written as `<0x1F>` in them."""


class Alternative(NamedTuple):
    """A token that a model might have taken, and its probability."""

    token_id: int
    piece: str
    chance: float


class AlternativesRecord(NamedTuple):
    """What a model found likeliest where the token `token_id` stands: its distribution's head and its entropy.

    Of the answering model for each token of the answer (`round_index` as in `tokens`); of the draft, where `role` says
    so, for each token it proposed for `position` in that round, accepted or rejected. The model's own probabilities: of
    temperature 1, before top-k and top-p. `ids` are up to MOST_ALTERNATIVES uint32, `chances` as many float16, both
    little-endian and best first; `pieces` are their texts. `entropy_mbit` is in thousandths of a bit, over the whole
    vocabulary.
    """

    run_id: int
    role: str
    round_index: int
    position: int
    token_id: int
    entropy_mbit: int
    ids: bytes
    chances: bytes
    pieces: str

    @classmethod
    def made(
        cls,
        place: tuple[int, str, int, int, int],
        ids: Sequence[int],
        chances: Sequence[float],
        entropy_bits: float,
        pieces: Sequence[str],
    ) -> AlternativesRecord:
        """From plain values; `place` is run, role, round, position and token."""
        count = len(ids)
        return cls(
            *place,
            round(1000 * entropy_bits),
            struct.pack(f"<{count}I", *ids),
            struct.pack(f"<{count}e", *chances),
            _BETWEEN.join(pieces),
        )

    @property
    def listed(self) -> list[Alternative]:
        """The tokens, best first; of what no program of ours wrote as much as can be read."""
        count = min(len(self.ids) // 4, len(self.chances) // 2, MOST_ALTERNATIVES)
        ids = struct.unpack_from(f"<{count}I", self.ids)
        chances = struct.unpack_from(f"<{count}e", self.chances)
        pieces = self.pieces.split(_BETWEEN) if self.pieces else []
        texts = pieces if len(pieces) == count else [""] * count
        return [Alternative(*found) for found in zip(ids, texts, chances, strict=True) if 0 <= found[2] <= 1]

    @property
    def entropy_bits(self) -> float:
        """How undecided the model was: 0 for certain, 1 as over a coin."""
        return self.entropy_mbit / 1000

    def chance_of(self, token_id: int) -> float | None:
        """The probability of a token; None where it is not among the likeliest."""
        return next((found.chance for found in self.listed if found.token_id == token_id), None)

    def chance_at_most(self, token_id: int) -> float | None:
        """The probability of a token; of one that is not among the likeliest, that of the last of these."""
        listed = self.listed
        return next((one.chance for one in listed if one.token_id == token_id), listed[-1].chance if listed else None)


class KvRecord(NamedTuple):
    """Length and logical bytes of one model's KV cache at a moment, by host arithmetic from shapes."""

    run_id: int
    role: str
    t_ns: int
    length: int
    nbytes: int


class MemoryRecord(NamedTuple):
    """Memory of the engine process at a moment, sampled by the host: resident bytes, and the GPU's (-1: no GPU)."""

    run_id: int
    t_ns: int
    rss_bytes: int
    gpu_bytes: int


class PowerRecord(NamedTuple):
    """What a device draws and how it is, sampled by the host; -1 for what the device does not tell.

    `device` is the GPU as torch numbers it ("cuda:0"), or a package of the processor ("cpu:0"). `energy_uj` is the
    device's own counter, free of overflows; its start means nothing, and it goes up in steps. `throttle_bits` are
    NVML's (see `evprof.core.vocabulary.figures`); the shares of time in which the GPU computed or used its memory
    are in %.
    """

    run_id: int
    t_ns: int
    device: str
    energy_uj: int = -1
    power_mw: int = -1
    sm_mhz: int = -1
    memory_mhz: int = -1
    temperature_c: int = -1
    throttle_bits: int = -1
    busy_percent: int = -1
    memory_busy_percent: int = -1


class FrameRecord(NamedTuple):
    """One picture a model really saw, as PNG (longest edge <= 256 px).

    `start_us`/`end_us` are sensor time: the slice's first and last timestamp, or the frame's own time twice.
    """

    run_id: int
    role: str
    frame_index: int
    start_us: int
    end_us: int
    label: str
    png: bytes


Record = (
    SpanRecord
    | TensorRecord
    | TokenRecord
    | RoundRecord
    | JudgementRecord
    | AlternativesRecord
    | KvRecord
    | MemoryRecord
    | PowerRecord
    | FrameRecord
)

STREAMS: dict[str, type[Record]] = {
    "spans": SpanRecord,
    "tensors": TensorRecord,
    "tokens": TokenRecord,
    "rounds": RoundRecord,
    "judgements": JudgementRecord,
    "alternatives": AlternativesRecord,
    "kv": KvRecord,
    "memory": MemoryRecord,
    "power": PowerRecord,
    "frames": FrameRecord,
}
"""Stream name -> record type; also the names of the chunks in a session file."""

STREAM_OF: dict[type[Record], str] = {kind: name for name, kind in STREAMS.items()}


@cache
def column_kinds(stream: str) -> dict[str, str]:
    """Column name -> "int", "str" or "bytes" of a stream, in field order."""
    # Read as they are written above: finding the types themselves takes as long as a hundred streams take to be made.
    return {name: kind.__forward_arg__ for name, kind in STREAMS[stream].__annotations__.items()}


BATCHES = "batches"
"""The fact's name."""


@dataclass(frozen=True)
class BatchRow(Plain):
    """A model's `requests` in batches of `batch`: medians over `n` rounds of the times of all of them.

    `before_ms` is load, preprocess and vision, one sample after the other whatever the size. `tokens` are those of all
    answers, `positions` the longest prompt's. `samples_per_s` counts everything, `decode_tok_s` the tokens after the
    first of each answer against decoding alone (None: there were none). `cache_bytes` is the largest cache; the peak is
    that of `peak_of`: "allocated" on a GPU, else "rss".
    """

    model: str
    role: str
    device: str
    dtype: str
    batch: int
    requests: int
    n: int
    positions: int
    new_tokens: int
    tokens: int
    before_ms: float
    prefill_ms: float
    decode_ms: float
    samples_per_s: float
    decode_tok_s: float | None
    peak_bytes: int | None
    peak_of: str
    cache_bytes: int
