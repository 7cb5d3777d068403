"""How a speculative mode drafts: who, how much at a time, and when."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from evprof.core.errors import UsageError
from evprof.core.plain import Plain, plain_values
from evprof.core.vocabulary.drafters import DRAFTERS, GROWING_WORDS, KINDS, MODEL, TREE_WORDS
from evprof.core.vocabulary.setting import Range, Situation, setting
from evprof.core.vocabulary.switches import OF_VISUAL_TOKENS, PRUNINGS

SPECULATION, PARALLEL = "Speculation", "Parallel prefill"

MOST_NODES = 256
"""Of a draft tree."""

_TREE = re.compile(r"[1-9]\d?(,[1-9]\d?){0,11}\Z")
_DYNAMIC = re.compile(r"dynamic:([1-9]\d{0,3}):([1-9]\d?)\Z")
_MOST_LEVELS = 12
_NOBODY_DRAFTS = "Only speculative modes draft."


def _where_drafted(here: Situation) -> str:
    return "" if here.described.drafts else _NOBODY_DRAFTS


def _where_parallel(here: Situation) -> str:
    return "" if here.described.is_parallel else "Only parallel prefill drafts while the target prefills."


def _where_drawn_from_pictures(here: Situation) -> str:
    drafter = KINDS.get(here.values["drafter"])
    sees = drafter is not None and drafter.takes_draft
    return _where_drafted(here) or ("" if sees else "This drafter sees no pictures of its own.")


def _where_draft_is_pruned(here: Situation) -> str:
    is_pruned = here.values["draft_keep"] not in (None, 1)
    return _where_drawn_from_pictures(here) or ("" if is_pruned else "The draft's tokens are not pruned apart.")


def _where_a_tree_may_be(here: Situation) -> str:
    is_one_line = here.values["verify"] == "last-chunk"
    return _where_parallel(here) or ("What rides in the last chunk is one line." if is_one_line else "")


def has_rounds(here: Situation) -> bool:
    mode = here.described
    return mode.drafts and (not mode.is_parallel or here.values["afterwards"] == "rounds")


def _where_length_counts(here: Situation) -> str:
    if reason := _where_drafted(here):
        return reason
    if not has_rounds(here):
        return "Decoding goes on token by token after the prefill."
    return "The tree says how much is drafted." if here.values["tree"] and not _where_tree_counts(here) else ""


def _where_tree_counts(here: Situation) -> str:
    drafter = KINDS.get(here.values["drafter"])
    is_tree = drafter is not None and drafter.drafts_trees and not here.described.is_parallel
    return _where_drafted(here) or ("" if is_tree else f"Only some drafters draft trees: {TREE_WORDS}.")


@dataclass(frozen=True)
class DynamicTree:
    """A tree that grows where the drafter is sure: so many drafted tokens, on so many levels at most."""

    nodes: int
    depth: int


def _tree_problem(value: str) -> str:
    found = _DYNAMIC.match(value)
    if not value or _TREE.match(value) or (found and int(found[2]) <= _MOST_LEVELS):
        return ""
    return (
        f"children by level such as 3,2,1, or dynamic:NODES:LEVELS such as dynamic:24:6, {_MOST_LEVELS} levels at most"
    )


def adapter_name(adapter: Any) -> str:
    """The name of an adapter's folder; "" without one."""
    return PurePath(str(adapter).rstrip("/\\")).name if adapter else ""


@dataclass(frozen=True)
class SpeculationSettings(Plain):
    """How a speculative mode drafts."""

    drafter: str = setting(
        MODEL,
        "drafter",
        "Who proposes the tokens that the target checks; some must be trained first.",
        SPECULATION,
        choices=tuple((key, drafter.word) for key, drafter in DRAFTERS.items()),
        is_free=True,
        check=lambda value: "" if value in DRAFTERS else f"one of {', '.join(DRAFTERS)}",
        metavar="NAME|ADAPTER",
        idle=_where_drafted,
        label=lambda value, values: f"{value} {adapter_name(values['adapter'])}".rstrip(),
        text=lambda value, values: f"{value} {adapter_name(values['adapter'])}".rstrip(),
        axis="{} drafter",
    )
    adapter: str | None = setting(
        None,
        "cache map",
        "A trained adapter's folder or bundled name; its kind says who drafts.",
        SPECULATION,
        has_control=False,
        metavar="ADAPTER",
        idle=lambda here: "" if here.described.is_paired else _NOBODY_DRAFTS,
        label=lambda value, _: adapter_name(value),
        text=lambda value, _: adapter_name(value) or "none",
        axis=lambda value, _: adapter_name(value),
        told_with="drafter",
    )
    gamma: int = setting(
        5,
        "drafted per round",
        "Tokens γ that the draft proposes per round.",
        SPECULATION,
        idle=_where_length_counts,
        range=Range(least=1, shown=64),
        axis="γ {}",
    )
    length: str = setting(
        "fixed",
        "draft length",
        "Always γ; more after full rounds and less after others; or what costs and acceptance ask.",
        SPECULATION,
        choices=(("fixed", "fixed"), ("heuristic", "heuristic"), ("budgeted", "budgeted")),
        option="draft-length",
        idle=_where_length_counts,
        label="{} length",
        axis="{} length",
        is_advanced=True,
    )
    tree: str = setting(
        "",
        "draft tree",
        "Children of a node by level, such as 3,2,1; of a head also dynamic:NODES:LEVELS, the likeliest paths.",
        SPECULATION,
        choices=(("", "chain"), *((tree, tree) for tree in ("2,2,1", "3,2,1", "4,2,1,1", "dynamic:24:6"))),
        is_free=True,
        check=_tree_problem,
        option="draft-tree",
        metavar="TREE",
        idle=_where_tree_counts,
        label="tree {}",
        axis=lambda value, _: f"tree {value}" if value else "",
    )
    judges: bool = setting(
        True,
        "probabilities",
        "Whether what both models gave each judged token is kept for the acceptance clinic.",
        SPECULATION,
        choices=((True, "kept"), (False, "left out")),
        option="judgements",
        idle=_where_drafted,
        axis=lambda value, _: "judgements" if value else "no judgements",
        told_with="drafter",
        is_advanced=True,
    )
    draft_keep: float | None = setting(
        None,
        "draft tokens kept",
        "Share of the visual tokens that the draft model sees; the target's are as they are.",
        SPECULATION,
        metavar="SHARE",
        option="draft-visual-keep",
        idle=_where_drawn_from_pictures,
        range=replace(OF_VISUAL_TOKENS, low="as the target's"),
        label="draft keeps {:g}",
        text=lambda value, values: "as the target's" if value is None else f"{value:g} by {values['draft_prune_by']}",
        axis=lambda value, _: "draft as the target" if value is None else f"draft keeps {value:g}",
        is_advanced=True,
    )
    draft_prune_by: str = setting(
        "attention",
        "draft tokens by",
        "Which visual tokens: what the tower attends to most, what is least alike, or any (random: the control).",
        SPECULATION,
        choices=tuple((name, name) for name in PRUNINGS),
        option="draft-prune-by",
        idle=_where_draft_is_pruned,
        label="draft by {}",
        axis="draft by {}",
        told_with="draft_keep",
        is_advanced=True,
    )
    begins: str = setting(
        "load",
        "draft begins",
        "Whether the draft starts as the target loads its input, or with the target's prefill.",
        PARALLEL,
        choices=(("load", "with load"), ("prefill", "with prefill")),
        option="draft-begins",
        idle=_where_parallel,
        label="from {}",
        text="with {}",
        axis="from {}",
        is_advanced=True,
    )
    hidden: int | None = setting(
        None,
        "hidden tokens",
        "Tokens to draft while the target prefills; auto: as many as there is time for.",
        PARALLEL,
        option="hidden-tokens",
        idle=_where_parallel,
        range=Range(least=0, shown=512, low="auto"),
        label="{} hidden",
        text=lambda value, _: "as time allows" if value is None else str(value),
        axis=lambda value, _: "hidden as time allows" if value is None else f"{value} hidden",
        is_advanced=True,
    )
    shape: str = setting(
        "chain",
        "hidden shape",
        "One line of hidden tokens, or a tree: always the token whose way is likeliest; checking it costs more.",
        PARALLEL,
        choices=(("chain", "chain"), ("tree", "tree")),
        option="hidden-shape",
        idle=_where_a_tree_may_be,
        label="hidden {}",
        axis="hidden {}",
        is_advanced=True,
    )
    verify: str = setting(
        "after",
        "verified",
        "Hidden tokens are checked in a pass of their own, or within the prefill's last chunk.",
        PARALLEL,
        choices=(("after", "in a pass"), ("last-chunk", "in last chunk")),
        idle=_where_parallel,
        label="{}",
        text={"after": "after prefill", "last-chunk": "in the last chunk"},
        axis={"after": "verified after", "last-chunk": "verified in the last chunk"},
        is_advanced=True,
    )
    afterwards: str = setting(
        "plain",
        "afterwards",
        "Decoding goes on token by token, or in rounds as in speculative mode.",
        PARALLEL,
        choices=(("plain", "plain"), ("rounds", "in rounds")),
        idle=_where_parallel,
        label="then {}",
        axis="then {}",
        is_advanced=True,
    )

    def to_json(self) -> dict[str, Any]:
        """Plain values but `gamma`, which stands beside the groups (`GenerationSettings.to_json`)."""
        return {name: value for name, value in plain_values(self).items() if name != "gamma"}

    @property
    def needs_draft_model(self) -> bool:
        return DRAFTERS[self.drafter].takes_draft if self.drafter in DRAFTERS else False

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(map(int, self.tree.split(","))) if self.tree and self.dynamic is None else ()

    @property
    def dynamic(self) -> DynamicTree | None:
        """The limits of a dynamic tree; None for a chain and a static one."""
        found = _DYNAMIC.match(self.tree)
        return None if found is None else DynamicTree(int(found[1]), int(found[2]))

    @property
    def levels(self) -> int:
        return len(self.widths) if self.dynamic is None else self.dynamic.depth

    @property
    def nodes(self) -> int:
        if self.dynamic is not None:
            return self.dynamic.nodes
        nodes, level = 0, 1
        for width in self.widths:
            level *= width
            nodes += level
        return nodes

    def check(self) -> None:
        """Raises UserError (exit code 2) for settings that need each other."""
        if DRAFTERS[self.drafter].is_trained and not self.adapter:
            raise UsageError(f"Drafter {self.drafter} is trained; name its folder with --adapter.")
        if self.tree and not DRAFTERS[self.drafter].drafts_trees:
            raise UsageError(
                f"Only some drafters draft trees ({TREE_WORDS}); drafter {self.drafter} gives a chain, so leave "
                "--draft-tree out."
            )
        if self.dynamic is not None and not DRAFTERS[self.drafter].grows_trees:
            raise UsageError(
                f"Drafter {self.drafter} knows no chances to grow a dynamic tree by ({GROWING_WORDS} do); name "
                "children by level, such as --draft-tree 3,2,1."
            )
        if self.nodes > MOST_NODES:
            raise UsageError(f"--draft-tree {self.tree} has {self.nodes} nodes; {MOST_NODES} is the most.")
