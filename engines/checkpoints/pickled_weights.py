"""Old `.bin` weights, which are pickles: opened only when they ask for nothing but tensors in a dictionary.

PyTorch's own restricted reader runs no code, but it makes whatever sizes a file asks for; so the few names that
weights need are checked before it is given the file, and every tensor must lie whole in its storage.
"""

from __future__ import annotations

import pickletools
import re
import zipfile
from pathlib import Path
from typing import IO

import torch

from evprof.core.errors import UserError
from evprof.core.files.regular_file import regular_file

_MOST_PICKLE_BYTES = 100_000_000
_STREAMS = 5
"""Pickles at the start of the form before zip: magic, protocol, system, the object, its storages' keys."""

_ALLOWED = re.compile(
    r"(collections OrderedDict|torch\._utils _rebuild_(tensor_v2|tensor|parameter)|torch Size"
    r"|torch (cuda )?\w+Storage|torch\.(cuda|storage) \w+Storage)\Z"
)


def open_bin(path: Path) -> dict[str, torch.Tensor]:
    """Name -> tensor, mapped from the file where its form allows. Raises UserError for anything but plain weights."""
    regular_file(path, "use the safetensors files")
    try:
        _check(path)
        values = _load(path)
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


def _load(path: Path) -> object:
    # The form before PyTorch 1.6 cannot be mapped: its file is read whole.
    mapped = zipfile.is_zipfile(path)
    return torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)


def _check(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            for _ in range(_STREAMS):
                _check_names(path, file)
        return
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
    """Reads one pickle's instructions without carrying any out."""
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name == "GLOBAL" and not _ALLOWED.match(str(argument)):
            raise UserError(
                f"{path} asks for {str(argument)[:80].replace(' ', '.')}, which weights do not need; nothing of it was "
                "run: use the safetensors files."
            )
        if opcode.name in ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"):
            raise UserError(f"{path} is a pickle no weights are written as; use the safetensors files.")
