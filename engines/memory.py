"""Whether models fit before they are loaded: what each needs against what its device has free.

The need is an estimate from configuration and settings (weights exactly, the cache by its formula, activations by
their largest tensors); what a run really took is measured elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engines.config import EventGptConfig, ModelConfig, number, patches
from engines.device import choose_device, choose_dtype, dtype_name
from engines.event_model import DEFAULT_EVENT_FRAMES
from engines.loading import find_checkpoint
from engines.networks import build_empty
from engines.video_model import DEFAULT_FRAMES
from evprof.core.errors import UserError
from evprof.core.request import GenerationSettings, ModelChoice
from evprof.core.units import bytes_text

BOTH, IN_TURN = "both", "in turn"
"""Placements: every model stays loaded; they are loaded, run and freed one after the other."""

_TEXT_POSITIONS = 256
"""Positions granted to the prompt's text: the published layouts take 20 to 60 besides the question."""

_CUDA_WORKSPACE_BYTES = 512 << 20
"""What CUDA, its libraries and the allocator's rounding take besides tensors."""


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes one model takes on `device` (as torch spells it) in a run."""

    name: str
    role: str
    device: str
    dtype: str
    weight_bytes: int
    kv_bytes: int
    activation_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.weight_bytes + self.kv_bytes + self.activation_bytes

    def loaded(self) -> MemoryNeed:
        """The same for a model whose weights are on the device already, and so no longer part of what is free."""
        return replace(self, weight_bytes=0)


def memory_need(choice: ModelChoice, role: str, settings: GenerationSettings) -> MemoryNeed:
    """What a model will take, from its configuration alone. Raises UserError when it cannot be found.

    weights = parameters · bytes; KV = 2 · layers · kv_heads · head_dim · positions · bytes; activations = the larger
    of the vision pass and the prefill.
    """
    checkpoint = find_checkpoint(choice.name)
    device = choose_device(choice.device)
    dtype = choose_dtype(choice.dtype, device)
    config, size = checkpoint.config, dtype.itemsize
    visual = visual_positions(config, settings)
    prompt = visual + _TEXT_POSITIONS
    text = config.text
    head_dim = text.head_dim or text.hidden_size // text.num_attention_heads
    kv_heads = text.num_key_value_heads or text.num_attention_heads
    positions = prompt + settings.max_new_tokens
    parameters = sum(parameter.numel() for parameter in build_empty(config).parameters())
    return MemoryNeed(
        name=checkpoint.name,
        role=role,
        device=str(device),
        dtype=dtype_name(dtype),
        weight_bytes=parameters * size,
        kv_bytes=2 * text.num_hidden_layers * kv_heads * head_dim * positions * size,
        activation_bytes=max(_vision_bytes(config, settings, size), _prefill_bytes(config, prompt, size))
        + (_CUDA_WORKSPACE_BYTES if device.type == "cuda" else 0),
    )


def frame_count(config: ModelConfig, settings: GenerationSettings) -> int:
    """Frames a run with these settings shows the model."""
    if isinstance(config, EventGptConfig):
        return settings.event_frames or DEFAULT_EVENT_FRAMES
    return settings.frames or DEFAULT_FRAMES


def visual_positions(config: ModelConfig, settings: GenerationSettings) -> int:
    """Positions of the prompt that come from the input."""
    frames = frame_count(config, settings)
    if isinstance(config, EventGptConfig):
        return frames + patches(config.vision) + 1
    return frames * (patches(config.vision) + int(config.keeps_cls))


def _vision_bytes(config: ModelConfig, settings: GenerationSettings, size: int) -> int:
    """The tower on all frames at once: the residual, its MLP's inside, every layer's output where those are kept."""
    vision = config.vision
    tokens = frame_count(config, settings) * (patches(vision) + 1)
    width, inside = number(vision.hidden_size), number(vision.intermediate_size)
    kept = 1 if isinstance(config, EventGptConfig) else number(vision.num_hidden_layers) + 1
    return tokens * (width * (kept + 4) + 2 * inside + 2 * config.text.hidden_size) * size


def _prefill_bytes(config: ModelConfig, positions: int, size: int) -> int:
    """One layer over the whole prompt (residual, queries, keys, values, the MLP's three) and one row of logits."""
    text = config.text
    return positions * (6 * text.hidden_size + 3 * text.intermediate_size) * size + text.vocab_size * (size + 4)


def free_bytes(device: torch.device) -> int:
    """Bytes that can still be had on a device now: the GPU's, or the machine's (and the container's) memory.

    What PyTorch keeps cached for itself counts as free: it is given to the next tensor.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return min(int(psutil.virtual_memory().available), _container_bytes())


def _container_bytes() -> int:
    """What the control group of a Linux container still allows; practically unlimited elsewhere."""
    unlimited = 1 << 62
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        cached = next(
            int(line.split()[1])
            for line in (folder / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
    except (OSError, ValueError, StopIteration):
        return unlimited
    return unlimited if limit == "max" else max(int(limit) - used + cached, 0)


def plan_placement(needs: Sequence[MemoryNeed], free: Mapping[str, int], *, together: bool = False) -> str:
    """BOTH when all models fit beside each other, IN_TURN when each fits by itself. `free` is bytes by device.

    `together`: the mode needs them at once (speculation). Raises UserError, one sentence, when it cannot be done.
    """
    demand: dict[str, int] = {}
    for need in needs:
        demand[need.device] = demand.get(need.device, 0) + need.total_bytes
    if all(total <= free[device] for device, total in demand.items()):
        return BOTH
    too_big = [need for need in needs if need.total_bytes > free[need.device]]
    if too_big:
        raise UserError(_refusal(too_big[0], free[too_big[0].device]))
    if together:
        device = next(device for device, total in demand.items() if total > free[device])
        names = " and ".join(need.name for need in needs if need.device == device)
        raise UserError(
            f"{names} need {bytes_text(demand[device])} together on {device}, but {bytes_text(free[device])} is free; "
            "this mode needs both at once: choose a smaller dtype, another device for one, or mode side-by-side."
        )
    return IN_TURN


def _refusal(need: MemoryNeed, free: int) -> str:
    ways = [] if need.dtype != "float32" else ["--dtype bfloat16"]
    ways += ["fewer frames", "a smaller model"]
    return (
        f"{need.name} needs {bytes_text(need.total_bytes)} on {need.device} (weights {bytes_text(need.weight_bytes)}, "
        f"KV cache {bytes_text(need.kv_bytes)}, activations {bytes_text(need.activation_bytes)}), but "
        f"{bytes_text(free)} is free; choose {', '.join(ways[:-1])} or {ways[-1]}."
    )
