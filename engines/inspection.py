"""Describes a checkpoint or a published head from headers and configuration, without reading weights."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.adapters.folder import HeadFiles
from engines.adapters.medusa import medusa_sizes
from engines.adapters.published import check_fit, layer_config
from engines.checkpoints.config import ModelConfig, edge, is_qwen2, number
from engines.checkpoints.shards import StoredTensor, has_weights, read_headers
from engines.families.loaded_model import Network
from engines.families.networks import build_empty, engine_family, parameter_shapes
from engines.fit.requirements import picture_count, visual_positions
from engines.hardware.device import choose_device, choose_dtype, dtype_name
from engines.loading.shapes import random_vocabulary, text_shape, vision_shape
from engines.loading.weights import (
    Checkpoint,
    find_checkpoint,
    plan_problems,
    plan_tensors,
    preprocessing_file,
    preprocessing_of,
    rows_sentence,
)
from engines.tokens.tokenization import Vocabulary, read_vocabulary, vocabulary_file
from engines.tokens.vocabulary_alignment import vocabulary_facts
from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import MEDUSA
from evprof.core.vocabulary.families import FAMILIES, TextShape
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.loaders.adapters import DESCRIPTION, AdapterInfo, read_adapter
from evprof.loaders.heads import LAYERS, LAYOUTS, is_head_folder
from evprof.metrics.limits.sizes import VICUNA_7B
from evprof.metrics.limits.workload import decode_flops, mean_context, prefill_flops, vision_flops

if TYPE_CHECKING:
    from transformers import CLIPVisionConfig

_TOWERS = {(768, 12): "B", (1024, 24): "L", (1280, 32): "H"}


def describe_model(config: ModelConfig, settings: GenerationSettings) -> dict[str, Any]:
    """{"architecture", "text", "vision", "flops"} of a model as plain JSON; `vision` is that of one frame."""
    vision = asdict(replace(vision_shape(config), frames=1))
    return {
        "architecture": {
            "backbone": backbone_name(text_shape(config.text), "Qwen2" if is_qwen2(config.text) else "Llama"),
            "vision_tower": tower_name(config.vision),
            "projector": projector_name(config),
            "image_size": edge(config.vision),
            "vision_heads": number(config.vision.num_attention_heads),
            "tokens_per_frame": config.tokens_per_frame,
        },
        "text": asdict(text_shape(config.text)),
        "vision": vision | {"projections": [list(pair) for pair in vision["projections"]]},
        "flops": flops(config, settings),
    }


def backbone_name(text: TextShape, kind: str = "Llama") -> str:
    """`Llama, Vicuna-7B's shape` for the published shape, whatever its vocabulary; else the number of parameters."""
    if replace(text, vocabulary=VICUNA_7B.vocabulary) == VICUNA_7B:
        return "Llama, Vicuna-7B's shape"
    return f"{kind}, {text.parameters / 1e6:,.1f} million parameters"


def tower_name(vision: CLIPVisionConfig) -> str:
    """`CLIP ViT-L/14, 336 px`; a tower without a letter by its layers and width."""
    layers, width, patch = (number(size) for size in (vision.num_hidden_layers, vision.hidden_size, vision.patch_size))
    letter = _TOWERS.get((width, layers))
    size = f"ViT-{letter}/{patch}" if letter else f"ViT, {layers} layers of {width}, patch {patch}"
    return f"CLIP {size}, {edge(vision)} px"


def projector_name(config: ModelConfig) -> str:
    width, hidden = number(config.vision.hidden_size), config.text.hidden_size
    parts = [f"linear {width}→{hidden}", config.projector_act, f"linear {hidden}→{hidden}"]
    if config.has_adaptor:
        parts.append(f"adaptor {hidden}→{hidden}")
    if config.patch_pooling:
        parts.insert(len(parts) if FAMILIES[config.family].pools_projected else 0, config.patch_pooling)
    if FAMILIES[config.family].pools_frames:
        parts.append("mean pooling")
    return ", ".join(parts)


def flops(config: ModelConfig, settings: GenerationSettings) -> dict[str, Any]:
    text, vision = text_shape(config.text), replace(vision_shape(config), frames=1)
    positions = visual_positions(config, settings) + FAMILIES[config.family].text_positions
    context = mean_context(positions, max(settings.max_new_tokens - 1, 1))
    return {
        "prefill": prefill_flops(text, positions),
        "prefill_positions": positions,
        "decode_per_token": decode_flops(text, context),
        "decode_context": context,
        "vision_per_frame": vision_flops(vision),
        "frames": picture_count(config, settings),
    }


def inspect_checkpoint(
    path_or_name: str, choice: ModelChoice | None = None, settings: GenerationSettings | None = None
) -> dict[str, Any]:
    """The keys of `evprof inspect` for a checkpoint folder, a bundled or `random:` name or a hub id. `parameters` is
    what the configuration requires; `tensors`, `bytes` and `dtype` are stored; `device_bytes` is what the weights take
    as `choice` asks. Raises UserError if there is no checkpoint."""
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


_ANY_LLAMA = "eagle"


def find_head(path: str) -> AdapterInfo | None:
    folder = Path(path)
    if not is_head_folder(folder) or (folder / DESCRIPTION).is_file():
        return None
    try:
        info = read_adapter(path)
        if info.layout is LAYOUTS[_ANY_LLAMA] or info.layout is LAYOUTS["msd"]:
            return info if "fc.weight" in HeadFiles(info).names else None
    except UserError:
        return None
    return info


def inspect_head(info: AdapterInfo, against: str | None = None, clip: str | None = None) -> dict[str, Any]:
    """The `inspect` document of a head; with `against`, a model, "fit" says whether it may draft for it. Raises
    UserError for an unknown model."""
    layout = info.layout
    if layout is None:
        raise RuntimeError("a published head has a layout")
    problems: list[str] = []
    found: dict[str, Any] = {"layout": layout.word, "drafter": layout.kind, "made_for": info.target or None}
    try:
        files = HeadFiles(info)
        found |= {"tensors": len(files.names), "bytes": files.nbytes}
        if layout.kind == MEDUSA:
            sizes = medusa_sizes(info, files)
            info = replace(info, hidden_size=sizes.hidden, vocabulary=sizes.rows)
            found["heads"] = sizes.count
        else:
            layer_config(info)
    except UserError as error:
        problems.append(error.sentence)
    found |= {"hidden_size": info.hidden_size, "vocabulary": info.vocabulary}
    if layout.reads == LAYERS:
        layers = info.config["layers"]
        found["draft_vocabulary"] = info.config["draft_vocabulary"]
        found["reads_layers"] = "2, half, last but 3" if layers is None else ", ".join(map(str, layers))
    if against is not None:
        text = find_checkpoint(against, clip).config.text
        fit: dict[str, Any] = {"target": against, "fits": True}
        try:
            check_fit(info, text, text.vocab_size, against)
        except UserError as error:
            fit |= {"fits": False, "reason": error.sentence}
        found["fit"] = fit
    return {"problems": problems, **found}
