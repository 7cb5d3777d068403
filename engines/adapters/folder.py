"""The tensors of an adapter or a published head: checked when they are read, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from safetensors.torch import save
from torch import nn

from engines.checkpoints.shards import StoredTensor, bin_header, read_tensors, safetensors_header, weight_files
from engines.decoder.llama import LlamaDecoder
from evprof.core.errors import UserError
from evprof.core.files.whole_file import whole_folder
from evprof.core.units import bytes_text
from evprof.core.vocabulary.drafters import KINDS
from evprof.core.vocabulary.modes import MODES
from evprof.loaders.adapters import CARD, DESCRIPTION, FORMAT, AdapterInfo
from evprof.loaders.heads import CONFIG, MEDUSA_FILE, written_config

Shapes = Mapping[str, tuple[int, ...]]
"""Name -> shape of every tensor a kind needs."""

Made = TypeVar("Made", bound=nn.Module)

MOST_BYTES = 8 << 30
"""Of all tensors together; five Medusa heads of a 13B model take two GiB."""

_CPU = torch.device("cpu")


def load_tensors(
    info: AdapterInfo,
    shapes: Shapes | None = None,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
) -> dict[str, torch.Tensor]:
    """The adapter's tensors by name, on `device` (CPU); with `shapes`, these tensors alone, floating and in `dtype`
    (their own). Raises UserError for missing, oversized, misshaped or non-finite tensors. Runs nothing from the
    file."""
    path, place = info.tensors_path, device or _CPU
    if not path.is_file():
        raise UserError(
            f"{info.folder} lacks {path.name}; copy the adapter again or train it with evprof adapter train."
        )
    stored = {tensor.name: tensor for tensor in safetensors_header(path)}
    total = sum(tensor.nbytes for tensor in stored.values())
    if total > MOST_BYTES:
        raise UserError(f"{path} holds {bytes_text(total)}; an adapter has {bytes_text(MOST_BYTES)} at most.")
    if shapes is None:
        return {entry.name: tensor for entry, tensor in read_tensors(list(stored.values()), place)}
    missing, surplus = sorted(shapes.keys() - stored.keys()), sorted(stored.keys() - shapes.keys())
    if missing or surplus:
        what = f"lacks '{missing[0]}'" if missing else f"holds '{surplus[0][:80]}', which is no part of it"
        raise UserError(f"{path} {what}; train the adapter again.")
    return {name: read_weight(stored[name], shape, place, dtype) for name, shape in shapes.items()}


def read_weight(
    entry: StoredTensor, shape: Sequence[int], device: torch.device, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """One tensor. Raises UserError for another shape, for whole numbers and for values that are not finite."""
    problem = ""
    if entry.shape != tuple(shape):
        problem = f"is of shape {list(entry.shape)}, and {list(shape)} is needed"
    elif not getattr(torch, entry.dtype).is_floating_point:
        problem = f"is of type {entry.dtype}, and weights are needed"
    if not problem:
        ((_, tensor),) = read_tensors([entry], device)
        if bool(tensor.float().isfinite().all()):
            return tensor if dtype is None else tensor.to(dtype)
        problem = "holds values that are not finite"
    raise UserError(f"{entry.path}: '{entry.name}' {problem}; choose the models it was made for, or get it again.")


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


_OUTER = ("model.", "medusa_head.")
"""What some programs set before every name."""


class HeadFiles:
    """`names` are those of all tensors, without what some programs set before them. Reading one counts it as known."""

    def __init__(self, info: AdapterInfo) -> None:
        self._info = info
        own = info.folder / MEDUSA_FILE
        files = [own] if own.is_file() else weight_files(info.folder)
        stored: dict[str, StoredTensor] = {}
        for path in files:
            for tensor in safetensors_header(path) if path.suffix == ".safetensors" else bin_header(path):
                name = tensor.name
                for outer in _OUTER:
                    name = name.removeprefix(outer)
                if name in stored:
                    raise UserError(f"{path} holds '{name[:80]}' twice; download the head again.")
                stored[name] = tensor
        total = sum(tensor.nbytes for tensor in stored.values())
        if total > MOST_BYTES:
            raise UserError(f"{info.folder} holds {bytes_text(total)}; a head has {bytes_text(MOST_BYTES)} at most.")
        self._stored = stored
        self._known: set[str] = set()
        self.nbytes = total

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor. Raises UserError where there is none."""
        return self._entry(name).shape

    def note(self, name: str) -> None:
        self._known.add(name)

    def joined(
        self,
        names: Sequence[str],
        rows: Sequence[int] | None,
        shape: tuple[int, ...],
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Concatenates tensors with `rows` rows each to `shape`. Raises UserError for missing tensors, and as
        `read_weight`."""
        self._known.update(names)
        parts = [
            read_weight(self._entry(name), (count, *shape[1:]), device, dtype)
            for name, count in zip(names, rows or (shape[0],), strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def whole_numbers(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A tensor of whole numbers as int64 on the CPU. Raises UserError for anything else."""
        entry = self._entry(name)
        if entry.shape != shape or entry.dtype not in ("int64", "int32"):
            raise UserError(
                f"{entry.path}: '{name}' is of shape {list(entry.shape)} and type {entry.dtype}, and {list(shape)} "
                "whole numbers are needed."
            )
        self._known.add(name)
        ((_, tensor),) = read_tensors([entry], _CPU)
        return tensor.long()

    def refuse_rest(self, ignored: Sequence[str], foreign: Mapping[str, str]) -> None:
        """Raises UserError for an unread tensor whose name ends in none of `ignored`. `foreign` maps parts of names to
        layouts."""
        rest = sorted(name for name in self.names - self._known if not name.endswith(tuple(ignored)))
        if not rest:
            return
        layout = self._info.layout
        word = layout.word if layout is not None else ""
        told = next((said for part, said in foreign.items() if any(part in name for name in rest)), None)
        if told is not None:
            raise UserError(f"{self._info.folder} is a head of {told}; evprof does not know its arithmetic.")
        raise UserError(f"{self._info.folder} holds '{rest[0][:80]}', which is no part of an {word} head.")

    def _entry(self, name: str) -> StoredTensor:
        entry = self._stored.get(name)
        if entry is None:
            layout = self._info.layout
            word = layout.word if layout is not None else "published"
            raise UserError(f"{self._info.folder} lacks '{name}', which an {word} head has; download the head again.")
        return entry


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
