"""What a checkpoint is and whether it is whole, told from its headers and its configuration without reading weights."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from engines.config import EventGptConfig, ModelConfig, patches
from engines.loading import Checkpoint, find_checkpoint, preprocessing_of
from engines.naming import EVENTGPT, naming
from engines.networks import Network, build_empty, parameter_shapes
from engines.shards import StoredTensor, read_headers
from engines.tensor_plan import plan_problems, plan_tensors, with_tower
from engines.tokenization import read_vocabulary
from evprof.core.errors import UserError


def inspect_checkpoint(path_or_name: str) -> dict[str, Any]:
    """The keys of cli.md's `inspect` for a checkpoint folder, a bundled or `random:` name or a hub id.

    `parameters` is what the configuration asks for; `tensors`, `bytes` and `dtype` are what is stored (for random
    weights the tensors asked for, and None). Raises UserError when there is no checkpoint to look at.
    """
    checkpoint = find_checkpoint(path_or_name)
    network = build_empty(checkpoint.config)
    shapes = parameter_shapes(network)
    found: dict[str, Any] = {
        "family": checkpoint.config.family,
        "model_type": checkpoint.config.model_type,
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
        "tensors": len(shapes),
        "missing": [],
        "surplus": [],
        "dtype": None,
        "bytes": None,
        "context_limit": checkpoint.config.text.max_position_embeddings,
        "visual_tokens_per_frame": visual_tokens_per_frame(checkpoint.config),
        "assumptions": list(checkpoint.config.assumptions),
        "problems": [],
    }
    if checkpoint.folder is None:
        found["assumptions"] = ["The weights are random; only shapes and times mean something."]
    else:
        found.update(_stored_facts(checkpoint, network, found["assumptions"]))
    return found


def tensor_names(config: ModelConfig) -> list[str]:
    """The published names of all tensors a checkpoint of this configuration holds."""
    names = naming(config.family)
    return [names.published(name) for name in parameter_shapes(build_empty(config))]


def visual_tokens_per_frame(config: ModelConfig) -> int:
    """Tokens the tower makes of one frame and the language model reads, before EventGPT's pooling over frames."""
    if isinstance(config, EventGptConfig):
        return patches(config.vision) + 1
    return patches(config.vision) + int(config.keeps_cls)


def _stored_facts(checkpoint: Checkpoint, network: Network, assumptions: list[str]) -> dict[str, Any]:
    folder, config = checkpoint.folder, checkpoint.config
    if folder is None:
        raise ValueError("random weights are not stored")
    stored = read_headers(folder)
    with_clip, said = with_tower(config, stored)
    plan = plan_tensors(config, network, with_clip)
    assumptions = [*assumptions, *said]
    problems = plan_problems(folder, config, plan)
    problems += _vocabulary_problems(checkpoint)
    try:
        preprocessing_of(folder, config)
    except UserError as error:
        problems.append(error.sentence)
    if plan.skipped:
        assumptions = [
            *assumptions,
            f"{len(plan.skipped)} stored tables (such as {plan.skipped[0]}) are computed anew.",
        ]
    return {
        "tensors": len(stored),
        "missing": list(plan.missing),
        "surplus": plan.surplus,
        "dtype": _main_dtype(stored),
        "bytes": sum(tensor.nbytes for tensor in stored.values()),
        "assumptions": assumptions,
        "problems": problems,
    }


def _vocabulary_problems(checkpoint: Checkpoint) -> list[str]:
    if checkpoint.folder is None:
        return []
    try:
        vocabulary = read_vocabulary(checkpoint.folder, prefer_file=checkpoint.config.family != EVENTGPT)
    except UserError as error:
        return [error.sentence]
    rows = checkpoint.config.text.vocab_size
    if vocabulary.size <= rows:
        return []
    return [f"The tokenizer has {vocabulary.size} tokens but the model only {rows} rows; they do not belong together."]


def _main_dtype(stored: dict[str, StoredTensor]) -> str | None:
    sizes: Counter[str] = Counter()
    for tensor in stored.values():
        sizes[tensor.dtype] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else None
