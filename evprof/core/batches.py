"""What answering the same requests in batches of one size took: a row of a session's fact "batches"."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.plain import Plain

BATCHES = "batches"
"""The fact's name."""


@dataclass(frozen=True)
class BatchRow(Plain):
    """A model's `requests` in batches of `batch`: medians over `n` rounds of the times of all of them.

    `before_ms` is load, preprocess and vision, one sample after the other whatever the size. `tokens` are those of all
    answers, `positions` the longest prompt's. `samples_per_s` counts everything, `decode_tok_s` the tokens behind the
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
