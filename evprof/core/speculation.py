"""What a run says its speculation really was."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.plain import Plain

SAME, SHARED, REENCODED = "same", "shared", "re-encoded"
"""How the vocabularies of draft and target meet: id for id; in part of their ids; through text."""


@dataclass(frozen=True)
class SpeculationFacts(Plain):
    """What a run's speculation really was; None for what does not apply or was not measured.

    `drafter` is its name as told to people, `kind` one of DRAFTERS (or KV). `alignment` is SAME, SHARED or REENCODED;
    `shared_ids` of the target's `target_ids` the drafter can propose. `is_lossless`: the answer is the target's own.
    `concurrency` says how draft and target ran at once ("threads", "streams", "devices"), `draft_threads` and
    `target_threads` with how many CPU threads each. `transfer_bytes` and `transfer_ms` are what drafts took to cross
    from device to device.
    """

    drafter: str
    kind: str
    adapter: str | None = None
    alignment: str = SAME
    shared_ids: int | None = None
    draft_ids: int | None = None
    target_ids: int | None = None
    length: str = "fixed"
    tree: str = ""
    is_lossless: bool = True
    concurrency: str | None = None
    draft_threads: int | None = None
    target_threads: int | None = None
    transfer_bytes: int | None = None
    transfer_ms: float | None = None
