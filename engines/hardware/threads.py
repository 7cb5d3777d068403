"""How many CPU threads a run computes with: one for models too small to share out, else what PyTorch found.

Threads that wait for each other at every matrix of a tiny model gain nothing on an idle machine, and on a busy one
they wait for a whole time slice of somebody else: a hundredfold was measured.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from engines.stages.model import VisionLanguageModel

SMALL_PARAMETERS = 30_000_000
"""Below this a decode step's matrices are a few hundred kilobytes: less than the cost of handing them out."""

_DEFAULT = torch.get_num_threads()


def use_threads(models: Iterable[VisionLanguageModel]) -> int:
    """Sets PyTorch's threads for a run of these models; returns how many.

    `OMP_NUM_THREADS`, which PyTorch read at its start, stays the upper limit.
    """
    count = thread_count(model.facts.parameters for model in models if model.device.type == "cpu")
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
    return count


def thread_count(parameters: Iterable[int]) -> int:
    """Threads a run takes whose models on the CPU have so many parameters each."""
    return 1 if all(count < SMALL_PARAMETERS for count in parameters) else _DEFAULT


def split_threads(total: int) -> tuple[int, int]:
    """Threads of a draft and of its target that compute at once: a quarter for the draft, at least one each.

    The draft mostly waits for memory, token by token; the target's prefill is what all wait for.
    """
    draft = max(1, total // 4)
    return draft, max(1, total - draft)
