"""The tensors of a trained adapter's folder, checked before they are read and written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save
from torch import nn

from engines.checkpoints.shards import read_tensors, safetensors_header
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_folder
from evprof.core.units import bytes_text
from evprof.core.vocabulary.drafters import KINDS
from evprof.core.vocabulary.modes import MODES
from evprof.loaders.adapters import CARD, DESCRIPTION, FORMAT, AdapterInfo
from evprof.loaders.heads import CONFIG, written_config

Shapes = Mapping[str, tuple[int, ...]]
"""Name -> shape of every tensor a kind needs."""

Made = TypeVar("Made", bound=nn.Module)

MOST_BYTES = 4 << 30
"""Of all tensors of an adapter together; a head for a 7B model takes an eighth of it."""


def load_tensors(
    info: AdapterInfo,
    shapes: Shapes | None = None,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> dict[str, torch.Tensor]:
    """The adapter's tensors by name, on `device` (CPU), floating ones in `dtype` (their own). `shapes` must match
    before weights are read. Raises UserError for missing, oversized, misshaped or non-finite tensors. Runs nothing from
    the file."""
    path = info.tensors_path
    if not path.is_file():
        raise UserError(
            f"{info.folder} lacks {path.name}; copy the adapter again or train it with evprof adapter train."
        )
    stored = {tensor.name: tensor for tensor in safetensors_header(path)}
    total = sum(tensor.nbytes for tensor in stored.values())
    if total > MOST_BYTES:
        raise UserError(f"{path} holds {bytes_text(total)}; an adapter has {bytes_text(MOST_BYTES)} at most.")
    if shapes is not None:
        missing = sorted(set(shapes) - set(stored))
        surplus = sorted(set(stored) - set(shapes))
        if missing or surplus:
            what = f"lacks '{missing[0]}'" if missing else f"holds '{surplus[0][:80]}', which is no part of it"
            raise UserError(f"{path} {what}; train the adapter again.")
        for name, shape in shapes.items():
            found = stored[name]
            if found.shape != tuple(shape):
                raise UserError(
                    f"{path}: '{name}' is of shape {list(found.shape)}, and {list(shape)} is needed; train the adapter "
                    "for these models."
                )
            if not getattr(torch, found.dtype).is_floating_point:
                raise UserError(f"{path}: '{name}' is of type {found.dtype}, and weights are needed.")
    tensors: dict[str, torch.Tensor] = {}
    for entry, tensor in read_tensors(list(stored.values()), device or torch.device("cpu")):
        is_floating = tensor.is_floating_point()
        if is_floating and not bool(tensor.float().isfinite().all()):
            raise UserError(f"{path}: '{entry.name}' holds values that are not finite; train the adapter again.")
        tensors[entry.name] = tensor.to(dtype) if is_floating and dtype is not None else tensor
    return tensors


def load_module(
    info: AdapterInfo, make: Callable[[], Made], *, device: torch.device | None = None, dtype: torch.dtype
) -> Made:
    """The module that `make` gives, with the adapter's tensors as its frozen weights. Raises UserError as above."""
    # Without memory: whatever sizes are claimed, the file is looked at before anything is set aside for them.
    with torch.device("meta"):
        made = make()
    shapes = {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
    made.load_state_dict(load_tensors(info, shapes, device=device, dtype=dtype), assign=True)
    return made.requires_grad_(False)


def check_kind(info: AdapterInfo, kind: str) -> None:
    """Raises UserError for an adapter of another kind."""
    if info.kind != kind:
        mapping = next(mode.key for mode in MODES.values() if mode.maps_cache)
        who = f"mode {mapping}" if KINDS[kind].maps_cache else f"drafter {kind}"
        raise UserError(f"Adapter {info.name} is of kind {info.kind}; {who} needs one of kind {kind}.")


def check_target(info: AdapterInfo, target: LlamaDecoder, name: str = "") -> None:
    """Raises UserError unless the adapter was made for a model with this hidden size and these rows; `name` is
    shown."""
    _check_sizes(info, "target", name, (info.hidden_size, info.vocabulary), (target.config.hidden_size, target.rows))


def check_draft(info: AdapterInfo, draft: LlamaDecoder, name: str = "") -> None:
    asked = (info.draft_hidden_size or 0, 0)
    _check_sizes(info, "draft", name, asked, (draft.config.hidden_size, 0))


def save_adapter(info: AdapterInfo, tensors: Mapping[str, torch.Tensor], card: str) -> AdapterInfo:
    """Writes `info.folder` with description, tensors and model card, replacing an adapter. Raises UserError if it
    cannot."""
    folder = info.folder
    if folder.exists() and not (folder / DESCRIPTION).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"{folder} is there already and is no adapter; name a new folder.")
    try:
        with whole_folder(folder) as unfinished:
            (unfinished / DESCRIPTION).write_text(
                json.dumps(description(info), indent=1, sort_keys=True) + "\n", "utf-8"
            )
            (unfinished / CARD).write_text(card, "utf-8")
            if info.layout is not None:
                published = written_config(info.hidden_size, info.vocabulary, info.config)
                (unfinished / CONFIG).write_text(json.dumps(published, indent=1) + "\n", "utf-8")
            kept = {name: tensor.detach().to("cpu").contiguous().clone() for name, tensor in tensors.items()}
            # Through bytes: safetensors' own files can be read by nobody but their writer.
            (unfinished / info.tensors_path.name).write_bytes(save(kept, metadata={"format": "pt"}))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
    return replace(info, folder=folder)


def description(info: AdapterInfo) -> dict[str, Any]:
    names = ("kind", "name", "target", "draft", "hidden_size", "draft_hidden_size", "vocabulary", "config")
    values = {name: getattr(info, name) for name in (*names, "training", "evaluation")}
    return {"format": FORMAT, **values}


def size_of(info: AdapterInfo, name: str, *, least: int = 1, most: int = 1 << 20) -> int:
    """A whole number of the kind's own configuration. Raises UserError when it is missing or out of bounds."""
    value = info.config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UserError(
            f"{info.folder / DESCRIPTION}: config.{name} must be a whole number from {least} to {most}, not {value!r}."
        )
    return value


def _check_sizes(info: AdapterInfo, role: str, name: str, trained: tuple[int, int], found: tuple[int, int]) -> None:
    for what, needed, has in zip(("hidden size", "vocabulary"), trained, found, strict=True):
        if needed != has:
            model = f"the {role} {name}".rstrip()
            made_for = (info.target if role == "target" else info.draft) or "another model"
            raise UserError(
                f"Adapter {info.name} was trained for {made_for} with {what} {needed}, and {model} has {has}; choose "
                f"that {role} or another adapter."
            )


Loaded = TypeVar("Loaded")

_Stamp = tuple[str, tuple[tuple[str, int, int], ...]]

_held: WeakKeyDictionary[LlamaDecoder, dict[str, tuple[_Stamp, Any]]] = WeakKeyDictionary()


def kept(info: AdapterInfo, model: LlamaDecoder, load: Callable[[], Loaded]) -> Loaded:
    """The result of `load`, kept for the same files; one for each kind. It must not hold `model`, which would never be
    freed."""
    paths = sorted(path for path in info.folder.iterdir() if path.is_file())
    files = ((path, path.stat()) for path in paths)
    stamp = str(info.folder.resolve()), tuple((path.name, file.st_mtime_ns, file.st_size) for path, file in files)
    found = _held.setdefault(model, {})
    if info.kind in found and found[info.kind][0] == stamp:
        held: Loaded = found[info.kind][1]
        return held
    found.pop(info.kind, None)
    made = load()
    found[info.kind] = stamp, made
    return made
