"""What can be asked about speculation: who drafts, how much at a time, and when; and what a run says it really did.

Drafting never changes an answer; only the mode `kv-adapted` does, and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from evprof.core.errors import USAGE, UserError
from evprof.core.plain import Plain

SPECULATIVE, PARALLEL_PREFILL, KV_ADAPTED = "speculative", "parallel-prefill", "kv-adapted"

SPECULATIVE_MODES = (SPECULATIVE, PARALLEL_PREFILL)
"""Modes whose answers are the target's own, drafted and verified."""

PAIRED_MODES = (*SPECULATIVE_MODES, KV_ADAPTED)
"""Modes in which one answer may take both models."""

MODEL, LOOKUP, SELF, EAGLE, HIDDEN, LORA, NGRAM, KV = (
    "model",
    "lookup",
    "self",
    "eagle",
    "hidden",
    "lora",
    "ngram",
    "kv",
)

ADAPTER_KINDS = (EAGLE, HIDDEN, LORA, NGRAM, KV)
"""What can be trained: a head on the target's hidden states, a map from the draft's hidden states to the target's head,
low-rank changes of the draft, counts of the target's own answers, a map from the draft's cache to the target's (lossy).
"""

DRAFTERS = (MODEL, LOOKUP, SELF, EAGLE, HIDDEN, LORA, NGRAM)
"""Who can draft: the draft model as it is; what stands in prompt and answer already; the target itself; adapters."""

OF_THE_DRAFT = (MODEL, HIDDEN, LORA)
"""Drafters in which the draft model takes part."""

DRAFT_LENGTHS = ("fixed", "heuristic", "budgeted")
"""How many tokens a round drafts: gamma; two more after a round accepted whole and one fewer after any other; what
measured costs and acceptance promise the most for."""

BEGINNINGS = ("load", "prefill")
VERIFICATIONS = ("after", "last-chunk")
AFTERWARDS = ("plain", "rounds")

_TREE = re.compile(r"[1-9]\d?(,[1-9]\d?){0,11}\Z")
MOST_NODES = 256


@dataclass(frozen=True)
class SpeculationSettings(Plain):
    """How a speculative mode drafts.

    `drafter` is one of DRAFTERS; `adapter` the folder or bundled name of what was trained, for those that need it.
    `length` is one of DRAFT_LENGTHS. `tree` is empty for a chain, else how many children a node has on each level, such
    as "3,2,1". `judges`: probabilities of both models are kept and told after the run.

    Of parallel prefill: the draft `begins` with the target's load or with its prefill; `hidden` forces how many tokens
    are drafted inside (None: as many as the window allows); `verify` them in a pass of their own or in the prefill's
    last chunk; `afterwards` decode plainly or go on in rounds.
    """

    drafter: str = MODEL
    adapter: str | None = None
    length: str = "fixed"
    tree: str = ""
    judges: bool = True
    begins: str = "load"
    hidden: int | None = None
    verify: str = "after"
    afterwards: str = "plain"

    @property
    def needs_draft_model(self) -> bool:
        """Whether the event model takes part; the others draft without one."""
        return self.drafter in OF_THE_DRAFT

    @property
    def widths(self) -> tuple[int, ...]:
        """Children of a node by level; empty for a chain."""
        return tuple(map(int, self.tree.split(","))) if self.tree else ()

    @property
    def nodes(self) -> int:
        """Drafted tokens of a whole tree; 0 for a chain."""
        nodes, level = 0, 1
        for width in self.widths:
            level *= width
            nodes += level
        return nodes

    def validate(self) -> None:
        """Raises UserError (exit code 2) for values that mean nothing or need each other."""
        for option, value, known in (
            ("--drafter", self.drafter, DRAFTERS),
            ("--draft-length", self.length, DRAFT_LENGTHS),
            ("--draft-begins", self.begins, BEGINNINGS),
            ("--verify", self.verify, VERIFICATIONS),
            ("--afterwards", self.afterwards, AFTERWARDS),
        ):
            if value not in known:
                raise UserError(f"{option} must be one of {', '.join(known)}, not {value}.", exit_code=USAGE)
        if self.hidden is not None and self.hidden < 0:
            raise UserError(f"--hidden-tokens must be 0 or more, not {self.hidden}.", exit_code=USAGE)
        if self.drafter in ADAPTER_KINDS and not self.adapter:
            raise UserError(f"Drafter {self.drafter} is trained; name its folder with --adapter.", exit_code=USAGE)
        self._check_tree()

    def _check_tree(self) -> None:
        if not self.tree:
            return
        if not _TREE.match(self.tree):
            raise UserError(
                f"--draft-tree must be children by level such as 3,2,1, not '{self.tree}'.", exit_code=USAGE
            )
        if self.drafter != EAGLE:
            raise UserError(
                f"Only an EAGLE-style head drafts trees; drafter {self.drafter} gives a chain, so leave --draft-tree "
                "out.",
                exit_code=USAGE,
            )
        if self.nodes > MOST_NODES:
            raise UserError(
                f"--draft-tree {self.tree} has {self.nodes} nodes; {MOST_NODES} is the most.", exit_code=USAGE
            )


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
