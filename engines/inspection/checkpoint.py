"""What a checkpoint is and whether it is whole, told from its headers and its configuration without reading weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.shards import StoredTensor, has_weights, read_headers
from engines.families.family import engine_family
from engines.families.loaded_model import Network
from engines.families.networks import build_empty, parameter_shapes
from engines.hardware.device import choose_device, choose_dtype, dtype_name
from engines.inspection.architecture import describe_model
from engines.loading.random_weights import random_vocabulary
from engines.loading.tensor_plan import plan_problems, plan_tensors
from engines.loading.weights import Checkpoint, find_checkpoint, preprocessing_file, preprocessing_of, rows_sentence
from engines.tokens.tokenization import Vocabulary
from engines.tokens.vocabulary_alignment import vocabulary_facts
from engines.tokens.vocabulary_files import read_vocabulary, vocabulary_file
from evprof.core.errors import UserError
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice


def inspect_checkpoint(
    path_or_name: str, choice: ModelChoice | None = None, settings: GenerationSettings | None = None
) -> dict[str, Any]:
    """The keys of cli.md's `inspect` for a checkpoint folder, a bundled or `random:` name or a hub id.

    `parameters` is what the configuration asks for; `tensors`, `bytes` and `dtype` are what is stored (for random
    weights the tensors asked for, and None); `device_bytes` is what the weights take where and as `choice` asks.
    `settings` are those of the run whose operations are counted.
    Raises UserError when there is no checkpoint to look at.
    """
    choice = choice or ModelChoice(path_or_name)
    checkpoint = find_checkpoint(path_or_name, choice.clip)
    device = choose_device(choice.device)
    dtype = choose_dtype(choice.dtype, device)
    network = build_empty(checkpoint.config)
    shapes = parameter_shapes(network)
    parameters = sum(math.prod(shape) for shape in shapes.values())
    found: dict[str, Any] = {
        "family": checkpoint.config.family,
        "model_type": checkpoint.config.model_type,
        "parameters": parameters,
        "tensors": len(shapes),
        "missing": [],
        "surplus": [],
        "dtype": None,
        "bytes": None,
        "device": str(device),
        "device_dtype": dtype_name(dtype),
        "device_bytes": parameters * dtype.itemsize,
        "context_limit": checkpoint.config.text.max_position_embeddings,
        "visual_tokens_per_frame": checkpoint.config.tokens_per_frame,
        **describe_model(checkpoint.config, settings or GenerationSettings()),
        "assumptions": ["The weights are random; only shapes and times mean something."],
        "problems": [],
    }
    if checkpoint.folder is None:
        return found
    if "/" in checkpoint.name and not has_weights(checkpoint.folder):
        # A hub id of which the small files alone are here: its configuration says everything but what is stored.
        said = f"The weights of {checkpoint.name} are not on this machine; a run fetches them."
        return found | {"assumptions": [*checkpoint.config.assumptions, said]}
    return found | _stored_facts(checkpoint, checkpoint.folder, network)


def inspect_vocabularies(draft: str, target: str, clip: str | None = None) -> dict[str, Any]:
    """The key "vocabulary" of `evprof inspect DRAFT --against TARGET`. Raises UserError where either has none."""
    mine, theirs = (_vocabulary(find_checkpoint(name, clip)) for name in (draft, target))
    return {"target": target, **vocabulary_facts(mine, theirs)}


def _vocabulary(checkpoint: Checkpoint) -> Vocabulary:
    config = checkpoint.config
    if checkpoint.folder is None:
        return random_vocabulary(config)
    return read_vocabulary(
        checkpoint.folder, prefer_file=engine_family(config.family).writes_tokenizer_file, rows=config.text.vocab_size
    )


def _stored_facts(checkpoint: Checkpoint, folder: Path, network: Network) -> dict[str, Any]:
    config = checkpoint.config
    family = engine_family(config.family)
    stored = read_headers(folder)
    problems: list[str] = []
    assumptions = list(config.assumptions)
    try:
        whole, said = family.completed(folder, config, stored)
        plan = plan_tensors(config, network, whole)
        told = plan
        assumptions += said
    except UserError as error:
        problems.append(error.sentence)
        plan = plan_tensors(config, network, stored)
        told = replace(plan, missing=tuple(name for name in plan.missing if not family.is_lent(name)))
    problems += plan_problems(folder, told)
    assumptions += _tower_sources(config, stored)
    try:
        vocabulary = _vocabulary(checkpoint)
        problems += _vocabulary_problems(config, vocabulary)
        assumptions += rows_sentence(config, vocabulary)
        source = vocabulary_file(folder, prefer_file=engine_family(config.family).writes_tokenizer_file)
        assumptions.append(f"The tokenizer is {source}, {vocabulary.size:,} entries.")
    except UserError as error:
        problems.append(error.sentence)
    try:
        preprocessing_of(folder, config)
        assumptions.append(_preprocessing_source(folder, config))
    except UserError as error:
        problems.append(error.sentence)
    if plan.skipped:
        assumptions.append(f"{len(plan.skipped)} stored tables (such as {plan.skipped[0]}) are computed anew.")
    return {
        "tensors": len(stored),
        "missing": list(plan.missing),
        "surplus": plan.surplus,
        "dtype": _main_dtype(stored),
        "bytes": sum(tensor.nbytes for tensor in stored.values()),
        "assumptions": assumptions,
        "problems": problems,
    }


def _tower_sources(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> list[str]:
    """Where a tower that may be lent, and its description, come from; another source of weights is `completed`'s to
    tell."""
    family = engine_family(config.family)
    is_own = any(family.is_lent(family.canonical(name)) for name in stored)
    inside = ["The CLIP tower's weights are the checkpoint's own."] if is_own else []
    described = config.tower_folder
    return [*inside, f"The CLIP tower's shape is read from {described}."] if described is not None else inside


def _preprocessing_source(folder: Path, config: ModelConfig) -> str:
    found = preprocessing_file(folder, config)
    if found is not None:
        return f"Pictures are prepared as {found} says."
    return "No preprocessor_config.json is there; pictures are prepared as CLIP's own program does."


def _vocabulary_problems(config: ModelConfig, vocabulary: Vocabulary) -> list[str]:
    rows = config.text.vocab_size
    if vocabulary.size <= rows:
        return []
    return [
        f"The tokenizer has {vocabulary.size:,} tokens but the model only {rows:,} rows; they do not belong together."
    ]


def _main_dtype(stored: Mapping[str, StoredTensor]) -> str | None:
    sizes: Counter[str] = Counter()
    for tensor in stored.values():
        sizes[tensor.dtype] += tensor.nbytes
    return sizes.most_common(1)[0][0] if sizes else None
