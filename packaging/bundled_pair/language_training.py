"""Second half of the training: projector, adaptor and decoder learn to speak about features of a finished tower."""

from __future__ import annotations

import time

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


def conversation_rng(seed: int) -> np.random.Generator:
    """Where scenes, questions and answers come from, so that what was said in training can be said again."""
    return np.random.default_rng((seed, 3))


def train_reader(
    reader: EventReader | VideoReader,
    *,
    features: torch.Tensor,
    labels: NDArray[np.int64],
    conversations: Conversations,
    steps: int,
    few_frames: int,
    batch: int,
    seed: int,
    report: Report,
) -> None:
    """Train ``reader`` in place on cached tower ``features`` [N, T, tokens, width].

    In its first ``few_frames`` steps a video reader sees two frames of each scene, in the places they have among all,
    and uses a few of its layers: words and facts are learned from these at a fraction of the price.
    """
    rng, frames = conversation_rng(seed), np.random.default_rng((seed, 6))
    parameters = list(reader.parameters())
    optimiser = torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.05, betas=(0.9, 0.98))
    before = torch.tensor(conversations.before)
    if few_frames:
        reader.shrink()
    started, running = time.monotonic(), 0.0
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule(step, steps, 2e-3, 60)
        if step == few_frames:
            reader.grow()
        rows, packed = conversations.batch(labels, batch, rng)
        embed = reader.decoder.get_input_embeddings()
        visual = reader.visual_embeddings(features[torch.from_numpy(rows)].float())
        seen = reader.some_places(visual.shape[1], frames) if step < few_frames else torch.arange(visual.shape[1])
        prefix = torch.cat([torch.arange(len(before)), seen + len(before)])
        inputs = torch.cat([embed(before).expand(batch, -1, -1), visual[:, seen], embed(packed.tokens)], dim=1)
        hidden = reader.decoder.model(
            inputs_embeds=inputs,
            attention_mask=packed.mask(len(prefix)),
            position_ids=packed.positions(prefix, len(before) + visual.shape[1]),
            use_cache=False,
        ).last_hidden_state[:, len(prefix) :]
        spoken = packed.targets != IGNORED
        loss = nn.functional.cross_entropy(reader.decoder.lm_head(hidden[spoken]), packed.targets[spoken])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        running = 0.95 * running + 0.05 * loss.item() if step else loss.item()
        if step % 10 == 9:
            report(f"language step {step + 1}/{steps}, {time.monotonic() - started:.0f} s: loss {running:.4f}")
