"""Which stored tensor fills which parameter of a network, and what does not fit: names and shapes, no weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engines.config import EventGptConfig, ModelConfig
from engines.naming import EVENTGPT, canonical, is_old_buffer, naming
from engines.networks import Network, parameter_shapes
from engines.shards import StoredTensor, has_weights, read_headers

_TOWER = "model.visual_tower.visual_tower.vision_model."


@dataclass(frozen=True)
class TensorPlan:
    """Which stored tensor fills which parameter; keys of `sources` are module names.

    `missing` are published names; `strangers` have no place in the network; `misshaped` come with the shape that was
    expected; `skipped` are names of tables every release can compute.
    """

    sources: dict[str, StoredTensor]
    missing: tuple[str, ...]
    strangers: tuple[StoredTensor, ...]
    misshaped: tuple[tuple[StoredTensor, tuple[int, ...]], ...]
    skipped: tuple[str, ...]

    @property
    def surplus(self) -> list[str]:
        """Stored names that have no place in the network."""
        return [tensor.name for tensor in self.strangers]


def with_tower(config: ModelConfig, stored: dict[str, StoredTensor]) -> tuple[dict[str, StoredTensor], tuple[str, ...]]:
    """EventGPT's tensors with those of the CLIP folder that config.json names, when the files hold no tower at all.

    Also a sentence saying so. Everything else comes back as it is.
    """
    if not isinstance(config, EventGptConfig) or config.tower_folder is None or not has_weights(config.tower_folder):
        return stored, ()
    if any(canonical(EVENTGPT, name).startswith(_TOWER) for name in stored):
        return stored, ()
    borrowed = {
        _TOWER + name.removeprefix("vision_model."): tensor
        for name, tensor in read_headers(config.tower_folder).items()
        if name.startswith("vision_model.")
    }
    said = f"The weights hold no CLIP tower; the original one in {config.tower_folder} is used."
    return {**stored, **borrowed}, (said,) if borrowed else ()


def plan_tensors(config: ModelConfig, network: Network, stored: Mapping[str, StoredTensor]) -> TensorPlan:
    """Compares what the files hold (by stored name) with what the network needs, both ways."""
    names = naming(config.family)
    wanted = {names.published(name): (name, shape) for name, shape in parameter_shapes(network).items()}
    sources: dict[str, StoredTensor] = {}
    strangers: list[StoredTensor] = []
    skipped: list[str] = []
    misshaped: list[tuple[StoredTensor, tuple[int, ...]]] = []
    tied = config.text.tie_word_embeddings
    for stored_name, tensor in stored.items():
        name = canonical(config.family, stored_name)
        if name in wanted:
            module_name, shape = wanted[name]
            if tensor.shape != shape:
                misshaped.append((tensor, shape))
            elif module_name in sources:
                strangers.append(tensor)
            else:
                sources[module_name] = tensor
        elif is_old_buffer(name) or (tied and name.endswith("lm_head.weight")):
            skipped.append(stored_name)
        else:
            strangers.append(tensor)
    present = {canonical(config.family, name) for name in stored}
    missing = [name for name in wanted if name not in present]
    return TensorPlan(sources, tuple(missing), tuple(strangers), tuple(misshaped), tuple(skipped))


def plan_problems(folder: Path, config: ModelConfig, plan: TensorPlan) -> list[str]:
    """One sentence per kind of mismatch, naming the first tensor and its file; empty when all is well."""
    problems: list[str] = []
    qformer = [each for each in plan.strangers if "query_embeddings" in each.name or "attention_layers" in each.name]
    if qformer:
        problems.append(
            f"{qformer[0].path} holds '{qformer[0].name}', a Q-Former's tensor; EventGPT with a Q-Former is not "
            "supported."
        )
    if plan.missing:
        more = _more(plan.missing)
        problems.append(
            f"{folder} lacks the tensor '{plan.missing[0]}'{more} that a {config.family} model of this config.json "
            "needs; download the missing weight file."
        )
    strangers = [tensor for tensor in plan.strangers if tensor not in qformer]
    if strangers:
        more = _more(strangers)
        problems.append(
            f"{strangers[0].path} holds the tensor '{strangers[0].name}'{more} that a {config.family} model of this "
            "config.json has no place for; check that weights and config.json belong together."
        )
    if plan.misshaped:
        tensor, wanted = plan.misshaped[0]
        more = _more(plan.misshaped)
        problems.append(
            f"{tensor.path}: the tensor '{tensor.name}'{more} has shape {list(tensor.shape)}, but config.json makes it "
            f"{list(wanted)}; check that weights and config.json belong together."
        )
    return problems


def _more(names: Sequence[object]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
