"""Tensor names: published names, module names, and the layers left out by `MODEL:layers=N`."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evprof.core.errors import USAGE, UserError

if TYPE_CHECKING:
    from engines.checkpoints.config import ModelConfig

_BUFFERS = re.compile(r"(rotary_emb\.inv_freq|embeddings\.position_ids)$")


@dataclass(frozen=True)
class Naming:
    """One family's names: `prefixes` pairs of (module prefix, published prefix), longest match first."""

    prefixes: tuple[tuple[str, str], ...]

    def published(self, module_name: str) -> str:
        for module, published in self.prefixes:
            if module_name.startswith(module):
                return published + module_name.removeprefix(module)
        raise KeyError(f"there is no published name for {module_name}")

    def module(self, published_name: str) -> str | None:
        """The module's name of a published tensor, or None when the family has no such part."""
        for module, published in self.prefixes:
            if published_name.startswith(published):
                return module + published_name.removeprefix(published)
        return None


def is_old_buffer(name: str) -> bool:
    return _BUFFERS.search(name) is not None


_SUFFIX = re.compile(r":layers=(\d{1,6})\Z")
_LAYER = re.compile(r"\Alanguage_model\.model\.layers\.(\d+)\.")


def split_layers(name: str) -> tuple[str, int | None]:
    """`MODEL:layers=N` as MODEL and N; a name without such an end as it is, and None."""
    found = _SUFFIX.search(name)
    return (name[: found.start()], int(found[1])) if found else (name, None)


def kept_layers(layers: int, count: int) -> tuple[int, ...]:
    """Which `count` of `layers` are kept: the first, the last and others evenly between; of one the first."""
    return tuple(round(index * (layers - 1) / max(count - 1, 1)) for index in range(count))


def with_layers(config: ModelConfig, name: str, count: int) -> ModelConfig:
    """The configuration with `count` layers. Raises UserError (exit code 2) for an invalid number."""
    layers = config.text.num_hidden_layers
    if not 1 <= count <= layers:
        raise UserError(f"{name} has {layers} layers; ask for 1 to {layers} of them.", exit_code=USAGE)
    if count == layers:
        return config
    kept, text = kept_layers(layers, count), copy.deepcopy(config.text)
    text.num_hidden_layers = count
    said = (
        f"Of the language model's {layers} layers {count} are kept: {', '.join(map(str, kept))}; it was not trained so."
    )
    return replace(config, text=text, kept_layers=kept, assumptions=(*config.assumptions, said))


def is_left_out(config: ModelConfig, name: str | None) -> bool:
    found = _LAYER.match(name or "")
    return bool(config.kept_layers) and found is not None and int(found[1]) not in config.kept_layers


def source_name(config: ModelConfig, name: str) -> str:
    found = _LAYER.match(name)
    if found is None or not config.kept_layers:
        return name
    start, end = found.span(1)
    return f"{name[:start]}{config.kept_layers[int(found[1])]}{name[end:]}"
