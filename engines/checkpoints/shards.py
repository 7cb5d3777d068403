"""The weight files of a checkpoint folder: their headers, one tensor at a time, and an identity by content.

Headers are read without weights. Old `.bin` files are pickles: they are opened only when they ask for nothing but
tensors in a dictionary.
"""

from __future__ import annotations

import hashlib
import json
import pickletools
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import RawIOBase
from math import prod
from pathlib import Path
from typing import IO, Any

import torch

from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file
from evprof.loaders.paths import reason

_MOST_BYTES = 25_000_000
"""Ten times the index of the largest model there is; parsed, a file takes some fifty times its size."""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises UserError naming the file when it is missing or is something else."""
    try:
        if path.exists():
            regular_file(path, "download the checkpoint again")
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is {path.stat().st_size} bytes long, far too long for what it should describe.")
        values = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path} is missing; a checkpoint folder needs it beside its weights.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}); download the checkpoint again.") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no JSON object; download the checkpoint again.")
    return values


def parse_json(content: bytes) -> Any:
    """The value that UTF-8 JSON spells. Raises ValueError for whatever it does not, too deep a nesting included."""
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


_MOST_PICKLE_BYTES = 100_000_000
_ALLOWED = re.compile(
    r"(collections OrderedDict|torch\._utils _rebuild_(tensor_v2|tensor|parameter)|torch Size"
    r"|torch (cuda )?\w+Storage|torch\.(cuda|storage) \w+Storage)\Z"
)


def open_bin(path: Path) -> dict[str, torch.Tensor]:
    """Name -> tensor, mapped from the file where its form allows. Raises UserError for anything but plain weights."""
    regular_file(path, "use the safetensors files")
    try:
        _check_bin(path)
        values = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - torch raises a different type for every way a pickle can be bad
        sentence = str(error).split("\n", 1)[0][:300]
        raise UserError(f"{path} cannot be read as plain weights ({sentence}); use the safetensors files.") from None
    if not isinstance(values, dict) or not all(isinstance(value, torch.Tensor) for value in values.values()):
        raise UserError(f"{path} holds something other than named tensors; use the safetensors files.")
    for name, tensor in values.items():
        if tensor.is_sparse or tensor.is_quantized or tensor.untyped_storage().nbytes() < tensor.nbytes:
            raise UserError(f"{path}: the tensor '{name}' claims more than is stored; use the safetensors files.")
    return {str(name): value.detach() for name, value in values.items()}


def _check_bin(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise UserError(f"{path} is no file that PyTorch 1.6 or later writes; use the safetensors files.")
    with zipfile.ZipFile(path) as archive:
        packed = [entry.filename for entry in archive.infolist() if entry.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise UserError(f"{path} is compressed, which weights never are; use the safetensors files.")
        for entry in archive.infolist():
            if entry.filename.endswith(".pkl"):
                if entry.file_size > _MOST_PICKLE_BYTES:
                    raise UserError(f"{path} lists {entry.file_size:,} bytes of names; use the safetensors files.")
                with archive.open(entry) as file:
                    _check_names(path, file)


def _check_names(path: Path, file: IO[bytes]) -> None:
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL" and not _ALLOWED.match(str(argument)):
            raise UserError(
                f"{path} asks for {str(argument)[:80].replace(' ', '.')}, which weights do not need; nothing of it was "
                "run: use the safetensors files."
            )
        if opcode.name in ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"):
            raise UserError(f"{path} is a pickle no weights are written as; use the safetensors files.")


_HEADER_LIMIT = 25_000_000
_MOST_DIMENSIONS, _LONGEST_SIDE, _LONGEST_NAME = 8, 1 << 40, 1_000
"""Of one tensor. A product of hundreds of huge numbers takes seconds, and no weight has them."""

_READ_BYTES = 1 << 30
"""Asked of the file at once; systems give no more than 2 GiB a call."""

_TORCH_OF: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
"""safetensors' names of types; a tensor of any other is refused by its name."""

STAGE_FILES = ("mm_projector.bin", "feature_adaptor.bin", "non_lora_trainables.bin", "adapter_model.bin")

_SINGLE_PATTERNS = ("model*.safetensors", "*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as a file describes it; `dtype` as torch spells it, `offset` its first byte in a safetensors file."""

    name: str
    path: Path
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    offset: int = 0

    @property
    def count(self) -> int:
        return prod(self.shape)


def weight_files(folder: Path) -> list[Path]:
    """The folder's weight files: of the index, a single model file, or old `.bin` files. Raises UserError for none or a
    missing one."""
    for index_name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        index = folder / index_name
        if index.is_file():
            return _indexed(index)
    found = _single_files(folder)
    if found:
        return found
    parts = [name for name in STAGE_FILES if (folder / name).is_file()]
    if parts:
        raise UserError(
            f"{folder} holds {', '.join(parts)}, which a training stage saved of a model's parts; name the folder of "
            "the whole model."
        )
    if (folder / "adapter_config.json").is_file():
        raise UserError(f"{folder} is a PEFT adapter and no model; merge it into its base model, and name that folder.")
    raise UserError(f"{folder} holds no weights (*.safetensors or pytorch_model*.bin); download the checkpoint again.")


def has_weights(folder: Path) -> bool:
    return bool(_single_files(folder))


def _single_files(folder: Path) -> list[Path]:
    for pattern in _SINGLE_PATTERNS:
        found = sorted(path for path in folder.glob(pattern) if path.name not in ("adapter_model.safetensors",))
        if found:
            return found
    return []


def _indexed(index: Path) -> list[Path]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise UserError(f"{index} has no weight_map; download the checkpoint again.")
    # Names alone: an index has no business outside its own folder.
    names = sorted({Path(name).name if isinstance(name, str) else "" for name in weight_map.values()})
    paths = [index.parent / name for name in names]
    unfit = [name for name in names if not name.endswith((".safetensors", ".bin"))]
    if unfit:
        raise UserError(f"{index} names '{unfit[0]}', which is no weight file; download the checkpoint again.")
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise UserError(f"{index} names {', '.join(missing)}, which is not beside it; download the missing file.")
    return paths


def read_headers(folder: Path) -> dict[str, StoredTensor]:
    """Stored name -> tensor description for a whole folder, without reading weights (`.bin` files are mapped)."""
    tensors: dict[str, StoredTensor] = {}
    for path in weight_files(folder):
        for tensor in safetensors_header(path) if path.suffix == ".safetensors" else bin_header(path):
            if tensor.name in tensors:
                raise UserError(f"{path} and {tensors[tensor.name].path.name} both hold '{tensor.name}'.")
            tensors[tensor.name] = tensor
    return tensors


def safetensors_header(path: Path) -> list[StoredTensor]:
    """What one file says it holds, held against its size. Raises UserError for a file that cannot be that."""
    size = regular_file(path, "download the checkpoint again").stat().st_size
    damaged = f"{path} is truncated or no safetensors file"
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else _HEADER_LIMIT + 1
        if length > min(_HEADER_LIMIT, size - 8):
            raise UserError(f"{damaged} ({size:,} bytes); download it again.")
        try:
            header: Any = parse_json(file.read(length))
            header.pop("__metadata__", None)
            found = [_stored(name, path, entry, 8 + length) for name, entry in header.items()]
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            raise UserError(f"{damaged} (its header is unreadable); download it again.") from None
    # Tensors lie one after the other to the end of the file, so no two can claim the same bytes.
    end = 8 + length
    for tensor in sorted(found, key=lambda tensor: (tensor.offset, tensor.nbytes)):
        if tensor.offset != end:
            raise UserError(f"{path} is damaged: '{tensor.name}' does not begin where the one before it ends.")
        end += tensor.nbytes
    if end != size:
        raise UserError(f"{path} is damaged: {end:,} bytes expected, {size:,} found; download it again.")
    return found


def _stored(name: str, path: Path, entry: dict[str, Any], data_start: int) -> StoredTensor:
    kind, shape = str(entry["dtype"]), tuple(entry["shape"])
    if len(name) > _LONGEST_NAME or len(shape) > _MOST_DIMENSIONS:
        raise UserError(f"{path}: the tensor '{name[:60]}' has a name or a shape too long to be a weight's.")
    if not all(type(size) is int and 0 <= size <= _LONGEST_SIDE for size in shape):
        raise ValueError(name)
    if kind not in _TORCH_OF:
        raise UserError(f"{path}: the tensor '{name}' is of type {kind[:20]}, which evprof cannot read.")
    start, stop = entry["data_offsets"]
    if type(start) is not int or type(stop) is not int:
        raise ValueError(name)
    dtype = _TORCH_OF[kind]
    tensor = StoredTensor(name, path, shape, str(dtype).removeprefix("torch."), stop - start, data_start + start)
    if tensor.count * dtype.itemsize != tensor.nbytes:
        raise ValueError(name)
    return tensor


def bin_header(path: Path) -> list[StoredTensor]:
    """What an old file holds; it is mapped, not read."""
    return [
        StoredTensor(name, path, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.nbytes)
        for name, tensor in open_bin(path).items()
    ]


def read_tensors(tensors: Sequence[StoredTensor], device: torch.device) -> Iterator[tuple[StoredTensor, torch.Tensor]]:
    """Each tensor on `device` in the file's dtype; only one is held at a time, and on a CPU it is no view of
    the file."""
    for path in dict.fromkeys(tensor.path for tensor in tensors):
        chosen = [tensor for tensor in tensors if tensor.path == path]
        if path.suffix == ".safetensors":
            with path.open("rb", buffering=0) as file:
                for tensor in sorted(chosen, key=lambda tensor: tensor.offset):
                    yield tensor, _read_tensor(file, tensor).to(device)
        else:
            values = open_bin(path)
            for tensor in chosen:
                stored = values.pop(tensor.name)
                yield tensor, stored.clone() if device.type == "cpu" else stored.to(device)


def _read_tensor(file: RawIOBase, tensor: StoredTensor) -> torch.Tensor:
    content = torch.empty(tensor.nbytes, dtype=torch.uint8)
    target, done = memoryview(content.numpy().data), 0
    file.seek(tensor.offset)
    while done < tensor.nbytes:
        count = file.readinto(target[done : done + _READ_BYTES])
        if not count:
            raise UserError(f"{tensor.path} ends inside '{tensor.name}'; it was changed while it was read.")
        done += count
    return content.view(getattr(torch, tensor.dtype)).view(tensor.shape)


_IDENTIFYING_FILES = ("config.json", "tokenizer.model", "tokenizer.json")
_WHOLE_BYTES = 32 << 20
_BLOCK_BYTES, _BLOCKS = 64 << 10, 128


def folder_content(folder: Path, kept_layers: tuple[int, ...] = ()) -> str:
    """`blake2b:…` of configuration, tokenizer and weights. Of weight files above 32 MiB it reads 128 evenly spread
    blocks of 64 KiB, and the size. Raises UserError when a file cannot be read."""
    digest = hashlib.blake2b(digest_size=16)
    if kept_layers:
        digest.update(f"layers {kept_layers}\n".encode())
    try:
        for path in (*(folder / name for name in _IDENTIFYING_FILES), *weight_files(folder)):
            if path.is_file():
                _add(digest, path)
    except OSError as error:
        raise UserError(f"{folder}: cannot be read ({reason(error)}); check its permissions.") from None
    return f"blake2b:{digest.hexdigest()}"


def _add(digest: hashlib.blake2b, path: Path) -> None:
    size = path.stat().st_size
    digest.update(f"{path.name} {size}\n".encode())
    with path.open("rb") as file:
        if size <= _WHOLE_BYTES:
            while piece := file.read(1 << 20):
                digest.update(piece)
            return
        for number in range(_BLOCKS):
            file.seek(number * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            digest.update(file.read(_BLOCK_BYTES))
