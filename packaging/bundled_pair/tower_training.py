"""First half of the training: a vision tower learns to show a scene's attributes, under throw-away linear heads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import CLIPVisionModel

from bundled_pair.attributes import VALUES
from engines.stages.pixel_values import CLIP_MEAN, CLIP_STD
from evprof.core.units import percent_text

Report = Callable[[str], None]


def normalise(pixels: NDArray[np.uint8]) -> torch.Tensor:
    """[..., H, W, 3] bytes to CLIP's normalised [..., 3, H, W] float32."""
    scaled = torch.from_numpy(pixels).float() / 255.0
    return ((scaled - torch.tensor(CLIP_MEAN)) / torch.tensor(CLIP_STD)).movedim(-1, -3)


class AttributeHeads(nn.Module):
    """One linear classifier per attribute on the class token and one on the mean of all tokens."""

    def __init__(self, width: int, names: Sequence[str]) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * width)
        self.heads = nn.ModuleDict({name: nn.Linear(2 * width, len(VALUES[name])) for name in names})

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        summary = self.norm(torch.cat([tokens[:, 0], tokens.mean(dim=1)], dim=-1))
        return {name: head(summary) for name, head in self.heads.items()}


def schedule(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(steps - warmup, 1)
    return peak * (0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * progress)))


def train_tower(
    tower: CLIPVisionModel,
    *,
    pixels: NDArray[np.uint8],
    labels: NDArray[np.int64],
    names: Sequence[str],
    steps: int,
    batch: int,
    seed: int,
    report: Report,
) -> None:
    """Train ``tower`` in place on single frames; ``pixels`` [N, T, H, W, 3], ``labels`` [N, attributes]."""
    rng = np.random.default_rng((seed, 2))
    heads = AttributeHeads(tower.config.hidden_size, names)
    parameters = [*tower.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.05, betas=(0.9, 0.98))
    columns = {name: list(VALUES).index(name) for name in names}
    frames = pixels.shape[1]
    started = time.monotonic()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = schedule(step, steps, 1.5e-3, 60)
        rows, columns_t = rng.integers(len(pixels), size=batch), rng.integers(frames, size=batch)
        predictions = heads(tower(normalise(pixels[rows, columns_t])).last_hidden_state)
        truth = torch.from_numpy(labels[rows])
        losses = [nn.functional.cross_entropy(predictions[name], truth[:, columns[name]]) for name in names]
        loss = torch.stack(losses).sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        if step % 50 == 49:
            right = {
                name: (predictions[name].argmax(-1) == truth[:, columns[name]]).float().mean().item() for name in names
            }
            figures = " ".join(f"{name} {percent_text(value)}" for name, value in right.items())
            report(f"tower step {step + 1}/{steps}, {time.monotonic() - started:.0f} s: {figures}")


@torch.no_grad()
def features(tower: CLIPVisionModel, pixels: NDArray[np.uint8], batch: int = 64) -> torch.Tensor:
    """[N, T, tokens, width] half-precision features of every frame."""
    tower.eval()
    count, frames = pixels.shape[:2]
    pieces = []
    for start in range(0, count, batch):
        block = pixels[start : start + batch]
        tokens = tower(normalise(block.reshape(-1, *block.shape[2:]))).last_hidden_state
        pieces.append(tokens.reshape(len(block), frames, *tokens.shape[1:]).half())
    return torch.cat(pieces)
