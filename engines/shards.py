"""The weight files of a checkpoint folder: which tensors they hold, of which shape, and one tensor at a time.

Headers are read without weights. Old `.bin` files are opened with weights_only=True, so that no code in them runs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engines.config import read_json
from evprof.core.errors import UserError

_HEADER_LIMIT = 100_000_000
_BYTES_OF = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
}
_NAME_OF = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "F8_E4M3": "float8_e4m3fn",
}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as a file describes it; `dtype` as torch spells it."""

    name: str
    path: Path
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @property
    def count(self) -> int:
        """Number of scalars."""
        total = 1
        for size in self.shape:
            total *= size
        return total


def weight_files(folder: Path) -> list[Path]:
    """The folder's weight files: those of the index, a single model file, else old `.bin` files.

    Raises UserError when there are none, or when the index names one that is missing.
    """
    for index_name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        index = folder / index_name
        if index.is_file():
            return _indexed(index)
    for pattern in ("*.safetensors", "pytorch_model*.bin"):
        found = sorted(folder.glob(pattern))
        if found:
            return found
    raise UserError(f"{folder} holds no weights (*.safetensors); download the checkpoint again.")


def has_weights(folder: Path) -> bool:
    """Whether the folder holds weight files at all."""
    return any(True for pattern in ("*.safetensors", "pytorch_model*.bin") for _ in folder.glob(pattern))


def _indexed(index: Path) -> list[Path]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{index} has no weight_map; download the checkpoint again.")
    paths = sorted({index.parent / Path(str(name)).name for name in weight_map.values()})
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{index} names {', '.join(missing)}, which is not beside it; download the missing file.")
    return paths


def read_headers(folder: Path) -> dict[str, StoredTensor]:
    """Stored name -> tensor description for a whole folder, without reading weights (`.bin` files are mapped)."""
    tensors: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        for tensor in _safetensors_header(path) if path.suffix == ".safetensors" else _bin_header(path):
            if tensor.name in tensors:
                raise UserError(f"{path} and {tensors[tensor.name].path.name} both hold '{tensor.name}'.")
            tensors[tensor.name] = tensor
    return tensors


def _safetensors_header(path: Path) -> list[StoredTensor]:
    size = path.stat().st_size
    damaged = f"{path} is truncated or no safetensors file"
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _HEADER_LIMIT + 1
        if length > min(_HEADER_LIMIT, size - 8):
            raise UserError(f"{damaged} ({size} bytes); download it again.")
        try:
            header: Any = json.loads(file.read(length))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            raise UserError(f"{damaged} (its header is unreadable); download it again.") from None
    if not isinstance(header, dict):
        raise UserError(f"{damaged} (its header is unreadable); download it again.")
    header.pop("__metadata__", None)
    try:
        found = [_stored(name, path, entry) for name, entry in header.items()]
        end = max((int(entry["data_offsets"][1]) for entry in header.values()), default=0)
    except (KeyError, TypeError, ValueError, IndexError):
        raise UserError(f"{damaged} (its header is unreadable); download it again.") from None
    if 8 + length + end != size:
        raise UserError(f"{path} is damaged: {8 + length + end} bytes expected, {size} found; download it again.")
    return found


def _stored(name: str, path: Path, entry: dict[str, Any]) -> StoredTensor:
    kind, shape = str(entry["dtype"]), tuple(int(size) for size in entry["shape"])
    start, stop = entry["data_offsets"]
    tensor = StoredTensor(name, path, shape, _NAME_OF.get(kind, kind.lower()), int(stop) - int(start))
    if kind in _BYTES_OF and tensor.count * _BYTES_OF[kind] != tensor.nbytes:
        raise ValueError(name)
    return tensor


def _bin_header(path: Path) -> list[StoredTensor]:
    return [
        StoredTensor(name, path, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.nbytes)
        for name, tensor in _open_bin(path).items()
    ]


def _open_bin(path: Path) -> dict[str, torch.Tensor]:
    try:
        values = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # noqa: BLE001 - torch raises a different type for every way a pickle can be bad
        sentence = str(error).split("\n", 1)[0]
        raise UserError(f"{path} cannot be read as plain weights ({sentence}); use the safetensors files.") from None
    if not isinstance(values, dict) or not all(isinstance(value, torch.Tensor) for value in values.values()):
        raise UserError(f"{path} holds something other than named tensors; use the safetensors files.")
    return {str(name): value for name, value in values.items()}


def read_tensors(tensors: list[StoredTensor], device: torch.device) -> Iterator[tuple[StoredTensor, torch.Tensor]]:
    """Each tensor on `device`, in the file's own dtype, file by file; only one is held at a time."""
    from safetensors import safe_open

    for path in dict.fromkeys(tensor.path for tensor in tensors):
        chosen = [tensor for tensor in tensors if tensor.path == path]
        if path.suffix != ".safetensors":
            values = _open_bin(path)
            for tensor in chosen:
                yield tensor, values[tensor.name].to(device)
            continue
        with ExitStack() as stack:
            try:
                file = stack.enter_context(safe_open(path, framework="pt", device=str(device)))
            except Exception as error:  # noqa: BLE001 - safetensors' own error class is not part of its interface
                raise UserError(f"{path} cannot be opened ({error}); download it again.") from None
            for tensor in chosen:
                yield tensor, file.get_tensor(tensor.name)
