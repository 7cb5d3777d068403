"""Who can draft, and what can be trained for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Drafter:
    """A drafter. `takes_draft`: the draft model takes part. `is_trained`: it is an adapter, taught beforehand.

    `drafts_trees`: it proposes trees as well as chains. `maps_cache`: it drafts nothing but maps the draft's KV cache
    to the target's (mode kv-adapted), which changes the answer. `ends_in_other_head`: the draft's steps end in another
    head than its own, so that they are neither compiled nor captured. `word` is its name in a list.

    Of a trained one: `card` is what its model card says it is, `sizes` those one may ask for, with least and most.
    """

    key: str
    word: str
    sentence: str
    takes_draft: bool = False
    is_trained: bool = False
    drafts_trees: bool = False
    maps_cache: bool = False
    ends_in_other_head: bool = False
    card: str = ""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


_ALL = (
    Drafter("model", "event model", "the draft model as it is", takes_draft=True),
    Drafter("lookup", "prompt lookup", "what followed the same words earlier in prompt and answer"),
    Drafter("self", "target itself", "the target itself over a second cache: shows what a round costs"),
    Drafter(
        "eagle",
        "EAGLE",
        "a head on the target's hidden states",
        is_trained=True,
        drafts_trees=True,
        card="A head on the target's own hidden states (EAGLE-style): it guesses the next hidden state and drafts with "
        "the target's frozen embeddings and head. It needs no draft model.",
        sizes={"window": (1, 4096), "steps": (1, 8)},
    ),
    Drafter(
        "hidden",
        "hidden",
        "a map from the draft's hidden states to the target's head",
        takes_draft=True,
        is_trained=True,
        ends_in_other_head=True,
        card="A map from the draft's hidden states to the target's: the draft drafts through the target's frozen norm "
        "and head, in the target's vocabulary.",
        sizes={"bottleneck": (1, 16384), "heads": (0, 128), "head_dim": (1, 512)},
    ),
    Drafter(
        "lora",
        "LoRA",
        "low-rank changes of the draft model",
        takes_draft=True,
        is_trained=True,
        card="Low-rank changes of the draft's projections, distilled on the target's own answers.",
        sizes={"rank": (1, 512)},
    ),
    Drafter(
        "ngram",
        "n-gram",
        "counts of the target's own answers",
        is_trained=True,
        card="Counts of the target's own answers: it drafts what followed the last tokens most often. It needs no "
        "draft model.",
        sizes={"order": (1, 8)},
    ),
    Drafter(
        "kv",
        "KV map",
        "a map from the draft's KV cache to the target's; it changes the answer",
        takes_draft=True,
        is_trained=True,
        maps_cache=True,
        card="A map from the draft's key/value cache to the target's. **Lossy**: answers are not the target's own.",
        sizes={"bottleneck": (1, 16384)},
    ),
)
KINDS: dict[str, Drafter] = {drafter.key: drafter for drafter in _ALL}
"""All of them by name: drafters, and the map of caches."""

DRAFTERS: dict[str, Drafter] = {key: drafter for key, drafter in KINDS.items() if not drafter.maps_cache}
"""Those that draft."""

ADAPTER_KINDS = tuple(key for key, drafter in KINDS.items() if drafter.is_trained)
"""What can be trained."""

UNTRAINED = tuple(key for key, drafter in KINDS.items() if not drafter.is_trained)
"""Drafters that need no adapter."""

MODEL, LOOKUP, SELF, EAGLE, HIDDEN, LORA, NGRAM, KV = KINDS
"""Names for who has to ask for one of them."""
