"""The modes of a run: which models take part, whose answers it leaves, and what drafting means in it."""

from __future__ import annotations

from dataclasses import dataclass

from evprof.core.records import DRAFT, TARGET


@dataclass(frozen=True)
class Mode:
    """A mode. `roles` are the models that take part, `answering` those whose answer it leaves, a run each; `reading`
    those that read their half of the sample.

    `is_paired`: one answer may take both models. `drafts`: tokens are proposed and verified, so the answer is the
    target's own. `is_parallel`: the draft works while the target prefills. `maps_cache`: the draft's KV cache is mapped
    to the target's, which needs an adapter and changes the answer (`is_lossless`). `strategy` is its key in
    STRATEGIES of `engines/modes/measured_run.py`.
    """

    key: str
    title: str
    tip: str
    roles: tuple[str, ...] = (DRAFT, TARGET)
    answering: tuple[str, ...] = (TARGET,)
    reading: tuple[str, ...] = (DRAFT, TARGET)
    is_paired: bool = False
    drafts: bool = False
    is_parallel: bool = False
    maps_cache: bool = False
    strategy: str = "plain"

    @property
    def is_lossless(self) -> bool:
        """Whether answers are those of the models alone."""
        return not self.maps_cache

    @property
    def drafts_in_rounds(self) -> bool:
        """Whether all that is drafted is drafted in rounds, so that drafters without a model of their own will do."""
        return self.drafts and not self.is_parallel

    @property
    def is_side_by_side(self) -> bool:
        """Whether both models answer, each on its own."""
        return len(self.answering) > 1


def _single(role: str, title: str, tip: str) -> Mode:
    return Mode(role, title, tip, (role,), (role,), (role,))


_ALL = (
    Mode("side-by-side", "Side by side", "Both models answer, one after the other.", answering=(DRAFT, TARGET)),
    Mode(
        "speculative",
        "Speculative",
        "The draft proposes tokens, the target verifies them: the target's answer, perhaps sooner.",
        is_paired=True,
        drafts=True,
        strategy="speculative",
    ),
    Mode(
        "parallel-prefill",
        "Parallel prefill",
        "The draft answers while the target prefills; the target verifies what it drafted.",
        is_paired=True,
        drafts=True,
        is_parallel=True,
        strategy="parallel",
    ),
    _single(DRAFT, "Draft alone", "The draft answers, without the target."),
    _single(TARGET, "Target alone", "The target answers, without the draft."),
    Mode(
        "kv-adapted",
        "KV-adapted, lossy",
        "The target answers over the draft's KV cache, mapped by a trained adapter: the answer may change.",
        reading=(DRAFT,),
        is_paired=True,
        maps_cache=True,
        strategy="kv_adapted",
    ),
)
MODES: dict[str, Mode] = {mode.key: mode for mode in _ALL}
"""Modes by name, in the order they are offered."""

SIDE_BY_SIDE, SPECULATIVE, PARALLEL_PREFILL, KV_ADAPTED = (
    "side-by-side",
    "speculative",
    "parallel-prefill",
    "kv-adapted",
)


def mode_of(key: str) -> Mode:
    """The mode of a name; one that nobody knows (of a newer evprof's session) is taken for a single model's."""
    return MODES.get(key) or Mode(key, key.replace("-", " ").capitalize(), "", (TARGET,), (TARGET,), (TARGET,))
