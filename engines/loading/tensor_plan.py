"""Which stored tensor fills which parameter of a network, and what does not fit: names and shapes, no weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engines.checkpoints.config import ModelConfig
from engines.checkpoints.naming import is_left_out, is_old_buffer, source_name
from engines.checkpoints.shards import StoredTensor
from engines.families.loaded_model import Network
from engines.families.networks import engine_family, parameter_shapes


@dataclass(frozen=True)
class TensorPlan:
    """Which stored tensor fills which parameter, by module name. `missing` are published names; `strangers` have no
    place; `misshaped` come with the expected shape; `skipped` tables are computed anew."""

    sources: dict[str, StoredTensor]
    missing: tuple[str, ...]
    strangers: tuple[StoredTensor, ...]
    misshaped: tuple[tuple[StoredTensor, tuple[int, ...]], ...]
    skipped: tuple[str, ...]

    @property
    def surplus(self) -> list[str]:
        return [tensor.name for tensor in self.strangers]


def with_stored_rows(config: ModelConfig, stored: Mapping[str, StoredTensor]) -> ModelConfig:
    family = engine_family(config.family)
    names = family.names
    wanted = [names.published("language_model.model.embed_tokens.weight")]
    if not config.text.tie_word_embeddings:
        wanted.append(names.published("language_model.lm_head.weight"))
    shapes = {family.canonical(name): tensor.shape for name, tensor in stored.items()}
    rows = {shapes[name][0] if name in shapes and len(shapes[name]) == 2 else 0 for name in wanted}
    if len(rows) != 1 or (found := rows.pop()) in (0, config.text.vocab_size):
        return config
    text = copy.deepcopy(config.text)
    said = (
        f"Embeddings and head have {found:,} rows where config.json says {text.vocab_size:,}; the stored rows are used."
    )
    text.vocab_size = found
    return replace(config, text=text, assumptions=(*config.assumptions, said))


def plan_tensors(config: ModelConfig, network: Network, stored: Mapping[str, StoredTensor]) -> TensorPlan:
    family = engine_family(config.family)
    names = family.names
    wanted = {
        names.published(source_name(config, name)): (name, shape) for name, shape in parameter_shapes(network).items()
    }
    sources: dict[str, StoredTensor] = {}
    strangers: list[StoredTensor] = []
    skipped: list[str] = []
    misshaped: list[tuple[StoredTensor, tuple[int, ...]]] = []
    tied = config.text.tie_word_embeddings
    for stored_name, tensor in stored.items():
        name = family.canonical(stored_name)
        if is_left_out(config, names.module(name)):
            continue
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
    present = {family.canonical(name) for name in stored}
    missing = [name for name in wanted if name not in present]
    return TensorPlan(sources, tuple(missing), tuple(strangers), tuple(misshaped), tuple(skipped))


def plan_problems(folder: Path, plan: TensorPlan) -> list[str]:
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
            f"{folder} lacks the tensor '{plan.missing[0]}'{more} that its config.json asks for; download the missing "
            "weight file."
        )
    strangers = [tensor for tensor in plan.strangers if tensor not in qformer]
    if strangers:
        more = _more(strangers)
        problems.append(
            f"{strangers[0].path} holds the tensor '{strangers[0].name}'{more} that its config.json has no place for; "
            "check that weights and config.json belong together."
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
