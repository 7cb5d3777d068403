"""Sequences of different lengths as one batch, padded on the right, where causal attention never looks."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engines.training.example import Example


def padded(rows: Sequence[torch.Tensor]) -> torch.Tensor:
    """[S_i, …] each -> [B, max S, …], zeros behind the shorter ones."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def joined_answers(examples: Sequence[Example], device: torch.device) -> torch.Tensor:
    """The answers' ids of all examples one after another, [sum of n]."""
    return torch.cat([example.answer_ids for example in examples]).to(device)
