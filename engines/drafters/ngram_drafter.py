"""Drafts what the target usually says next, from counts of its own answers; no model, microseconds a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from engines.adapters.folder import check_target
from engines.adapters.kept import kept
from engines.adapters.ngram import NgramCounts, load_ngram
from engines.drafters.draft_side import DraftSide
from engines.drafters.drafter import Drafter, Proposal
from engines.drafters.lookup_drafter import certain

LEAST_CONFIDENCE = {"cpu": 0.45}
"""By device, of a drafted chain as a whole: where a verified position costs a fifth of a step, as on a CPU, an unlikely
chain does not pay."""

_ELSEWHERE = 0.2
"""A GPU verifies a few positions more in nearly the same time, so that unlikely ones pay as well."""


class NgramDrafter(Drafter):
    """Proposes the chain of likeliest continuations as long as it is sure enough of the whole chain.

    `least` is the least product of the chain's confidences, by default the device's; drafting stops after one of
    `eos_ids`. Proposals are put on `device`.
    """

    def __init__(
        self,
        name: str,
        counts: NgramCounts,
        device: torch.device,
        eos_ids: frozenset[int] = frozenset(),
        *,
        least: float | None = None,
    ) -> None:
        super().__init__(name, torch.device("cpu"))
        self._counts = counts
        self._place = device
        self._eos_ids = eos_ids
        self._least = LEAST_CONFIDENCE.get(device.type, _ELSEWHERE) if least is None else least

    def propose(self, ids: Sequence[int], count: int, is_stopped: Callable[[], bool]) -> Proposal:
        """Up to `count` ids, none where the answer's last id is new to it."""
        recent = list(ids[-self._counts.order :])
        drafted = 0
        sure = 1.0
        while drafted < count:
            found = self._counts.after(recent)
            if found is None:
                break
            sure *= found.confidence
            if sure < self._least:
                break
            recent.append(found.token)
            drafted += 1
            if found.token in self._eos_ids:
                break
        return certain(recent[len(recent) - drafted :], self._place)


def make(side: DraftSide) -> NgramDrafter:
    """With counts of this target's answers."""
    info, target = side.trained, side.target.language_model
    check_target(info, target, side.target.facts.name)
    counts = kept(info, target, lambda: load_ngram(info))
    return NgramDrafter(info.name, counts, side.cached_target.device, side.eos_ids)
