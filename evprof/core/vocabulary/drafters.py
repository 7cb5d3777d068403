"""Who can draft, and what can be trained for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DrafterKind:
    """A drafter. `word` is its name in a list, `contender` in a table of benchmarks.

    `takes_draft`: the draft model takes part. `is_trained`: it is an adapter, taught beforehand. `drafts_trees`: it
    proposes trees as well as chains, `grows_trees`: dynamic ones, too. `maps_cache`: it drafts nothing but maps the
    draft's KV cache to the target's (mode kv-adapted), which changes the answer. `is_cheap`: drafts cost next to
    nothing, so long ones may pay. `ends_in_other_head`: the draft's steps end in another head than its own, so that
    they are neither compiled nor captured.

    Of a trained one: `card` is what its model card says it is, `sizes` those one may ask for, with least and most;
    without them it is not taught here but published by others.
    """

    key: str
    word: str
    contender: str
    sentence: str
    takes_draft: bool = False
    is_trained: bool = False
    drafts_trees: bool = False
    grows_trees: bool = False
    maps_cache: bool = False
    is_cheap: bool = False
    ends_in_other_head: bool = False
    card: str = ""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def absence(self) -> str:
        """Who drafts, where no draft model takes part."""
        return "" if self.takes_draft else f"Drafter {self.word}: {self.sentence}."


_ALL = (
    DrafterKind("model", "draft model", "draft model as it is", "the draft model as it is", takes_draft=True),
    DrafterKind(
        "lookup", "prompt lookup", "prompt lookup", "what followed the same words earlier in prompt and answer"
    ),
    DrafterKind(
        "suffix",
        "suffix automaton",
        "suffix automaton",
        "what followed the longest words said before, in prompt, answer and earlier answers",
        is_cheap=True,
    ),
    DrafterKind(
        "recycling",
        "token recycling",
        "token recycling",
        "what the target thought likely after the same tokens before",
        drafts_trees=True,
        is_cheap=True,
    ),
    DrafterKind(
        "self", "target itself", "the target itself", "the target itself over a second cache: shows what a round costs"
    ),
    DrafterKind(
        "eagle",
        "EAGLE",
        "EAGLE-style head",
        "a head on the target's hidden states",
        is_trained=True,
        drafts_trees=True,
        grows_trees=True,
        is_cheap=True,
        card="A head on the target's own hidden states (EAGLE-style): it guesses the next hidden state and drafts with "
        "the target's frozen embeddings and head. It needs no draft model.",
        sizes={"window": (1, 4096), "steps": (1, 8), "published": (1, 3)},
    ),
    DrafterKind(
        "medusa",
        "Medusa",
        "Medusa heads",
        "published heads on the target's last hidden state, one for each token ahead",
        is_trained=True,
        drafts_trees=True,
        grows_trees=True,
        is_cheap=True,
    ),
    DrafterKind(
        "hidden",
        "hidden",
        "hidden-state adapter",
        "a map from the draft's hidden states to the target's head",
        takes_draft=True,
        is_trained=True,
        ends_in_other_head=True,
        card="A map from the draft's hidden states to the target's: the draft drafts through the target's frozen norm "
        "and head, in the target's vocabulary.",
        sizes={"bottleneck": (1, 16384), "heads": (0, 128), "head_dim": (1, 512)},
    ),
    DrafterKind(
        "lora",
        "LoRA",
        "LoRA-tuned draft",
        "low-rank changes of the draft model",
        takes_draft=True,
        is_trained=True,
        card="Low-rank changes of the draft's projections, distilled on the target's own answers.",
        sizes={"rank": (1, 512)},
    ),
    DrafterKind(
        "ngram",
        "n-gram",
        "n-grams of its answers",
        "counts of the target's own answers",
        is_trained=True,
        is_cheap=True,
        card="Counts of the target's own answers: it drafts what followed the last tokens most often. It needs no "
        "draft model.",
        sizes={"order": (1, 8)},
    ),
    DrafterKind(
        "kv",
        "KV map",
        "cache of the draft, mapped",
        "a map from the draft's KV cache to the target's; it changes the answer",
        takes_draft=True,
        is_trained=True,
        maps_cache=True,
        card="A map from the draft's key/value cache to the target's. **Lossy**: answers are not the target's own.",
        sizes={"bottleneck": (1, 16384)},
    ),
)
KINDS: dict[str, DrafterKind] = {drafter.key: drafter for drafter in _ALL}
"""All of them by name: drafters, and the map of caches."""

DRAFTERS: dict[str, DrafterKind] = {key: drafter for key, drafter in KINDS.items() if not drafter.maps_cache}
"""Those that draft."""

ADAPTER_KINDS = tuple(key for key, drafter in KINDS.items() if drafter.is_trained)
"""What lies in a folder of its own."""

TAUGHT_KINDS = tuple(key for key in ADAPTER_KINDS if KINDS[key].sizes)
"""What `evprof adapter train` teaches."""

TREE_WORDS = ", ".join(drafter.word for drafter in DRAFTERS.values() if drafter.drafts_trees)
"""Those that draft trees, in words."""

GROWING_WORDS = ", ".join(drafter.word for drafter in DRAFTERS.values() if drafter.grows_trees)
"""Those that draft dynamic ones."""

# Names of the drafters that other code refers to.
MODEL = "model"
LOOKUP = "lookup"
SUFFIX = "suffix"
RECYCLING = "recycling"
SELF = "self"
EAGLE = "eagle"
MEDUSA = "medusa"
HIDDEN = "hidden"
LORA = "lora"
NGRAM = "ngram"
KV = "kv"
