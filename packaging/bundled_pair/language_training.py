"""Second half of the training: projector, adaptor and decoder learn to speak about features of a finished tower."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bundled_pair.assembly import EventReader, VideoReader
from bundled_pair.conversations import IGNORED, Conversations
from bundled_pair.tower_training import Report, schedule


@torch.no_grad()
def fold_standardisation(projector: nn.Sequential, features: torch.Tensor) -> None:
    """Start ``projector`` on zero-mean, unit-variance inputs by folding the statistics into its first layer."""
    first = projector[0]
    if not isinstance(first, nn.Linear):
        raise TypeError("a projector begins with a linear layer")
    sample = features[:200].float().flatten(0, -2)
    mean, deviation = sample.mean(dim=0), sample.std(dim=0).clamp_min(1e-3)
    nn.init.normal_(first.weight, std=first.in_features**-0.5)
    first.weight /= deviation
    first.bias.copy_(-first.weight @ mean)


def train_reader(
    reader: EventReader | VideoReader,
    *,
    features: torch.Tensor,
    labels: NDArray[np.int64],
    conversations: Conversations,
    blind: Sequence[str],
    steps: int,
    batch: int,
    seed: int,
    report: Report,
) -> None:
    """Train ``reader`` in place on cached tower ``features`` [N, T, tokens, width]."""
    rng = np.random.default_rng((seed, 3))
    optimiser = torch.optim.AdamW(reader.parameters(), lr=0.0, weight_decay=0.05, betas=(0.9, 0.98))
    layout = conversations.layout
    positions, mask = layout.positions(), layout.mask()
    before = torch.tensor(conversations.before)
    started, running = time.monotonic(), 0.0
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule(step, steps, 2e-3, 80)
        rows = rng.integers(len(features), size=batch)
        tokens, targets = conversations.draw(labels[rows], blind, rng)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            embed = reader.decoder.get_input_embeddings()
            visual = reader.visual_embeddings(features[torch.from_numpy(rows)].float())
            inputs = torch.cat([embed(before).expand(batch, -1, -1), visual, embed(tokens)], dim=1)
            hidden = reader.decoder.model(
                inputs_embeds=inputs,
                attention_mask=mask.expand(batch, -1, -1, -1),
                position_ids=positions,
                use_cache=False,
            ).last_hidden_state[:, layout.prefix :]
            spoken = targets != IGNORED
            logits = reader.decoder.lm_head(hidden[spoken])
        loss = nn.functional.cross_entropy(logits.float(), targets[spoken])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimiser.step()
        running = 0.95 * running + 0.05 * loss.item() if step else loss.item()
        if step % 25 == 24:
            report(f"language step {step + 1}/{steps}, {time.monotonic() - started:.0f} s: loss {running:.4f}")
