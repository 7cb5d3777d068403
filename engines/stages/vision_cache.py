"""Visual embeddings kept from run to run, in memory or on disk, under a key that names all they depend on.

It knows tensors and keys, neither towers nor prompts. A kept entry is what the same computation would give, bit for
bit; whatever could change a bit is part of the key.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from evprof.core.files.user_folders import cache_folder
from evprof.loaders.kept_files import KeptFiles
from evprof.loaders.pictures.render import Picture

OFF, MEMORY, DISK = "off", "memory", "disk"
"""Where embeddings are kept."""

MEMORY_BYTES = 512 << 20
DISK_BYTES = 2 << 30
"""Bounds of the two; past them the entry used longest ago goes first."""


def checkpoint_identity(name: str, files: Iterable[Path]) -> str:
    """What tells a checkpoint from any other without reading it: names, sizes and times of its weight files.

    Without any file `name` stands for itself, as in `random:…`.
    """
    stats = [(str(path.resolve()), path.stat()) for path in files]
    return json.dumps([name, [(place, stat.st_size, stat.st_mtime_ns) for place, stat in stats]])


def vision_key(pictures: Sequence[Picture], depends_on: Mapping[str, Any]) -> str:
    """The key of the embeddings of `pictures` (uint8, as the tower sees them, in order): 64 hexadecimal digits.

    `depends_on` names everything else that changes them; its values are spelled by `repr`.
    """
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(depends_on):
        digest.update(f"{name}={depends_on[name]!r}\n".encode())
    for picture in pictures:
        digest.update(repr((picture.shape, str(picture.dtype))).encode())
        digest.update(picture.tobytes())
    return digest.hexdigest()


class MemoryCache:
    """Embeddings on the device that made them: a hit costs no copy, and they go when their model goes."""

    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, torch.Tensor] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(tensor.nbytes for tensor in self._held.values())

    def get(self, key: str) -> torch.Tensor | None:
        """The tensor, which is not to be written to; None on a miss."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def put(self, key: str, tensor: torch.Tensor) -> None:
        """Keeps a tensor and lets the oldest go; one larger than the whole cache is not kept."""
        if tensor.nbytes > self._limit_bytes:
            return
        # A view would hold all of the storage it looks into, which nobody counts.
        is_whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        self._held[key] = tensor if is_whole else tensor.clone()
        self._held.move_to_end(key)
        while self.nbytes > self._limit_bytes:
            self._held.popitem(last=False)


class DiskCache:
    """Embeddings as safetensors files in one folder (see `KeptFiles`); damaged ones count as missing and go."""

    def __init__(self, folder: Path | None = None, limit_bytes: int = DISK_BYTES) -> None:
        self.folder = folder or cache_folder() / "vision"
        self._files = KeptFiles(self.folder, ".safetensors", limit_bytes)

    def get(self, key: str) -> torch.Tensor | None:
        """The tensor, on the host; None on a miss."""
        try:
            file = self._files.open(key)
            if file is None:
                return None
            with file:
                content = file.read()
        except OSError:
            return None
        tensor = _decoded(content)
        if tensor is None:
            self._files.remove(key)
        return tensor

    def put(self, key: str, tensor: torch.Tensor) -> None:
        """Writes a tensor and removes the oldest files past the bound. Raises OSError when the disk refuses."""
        self._files.put(key, [_encoded(tensor)])


def _encoded(tensor: torch.Tensor) -> bytes:
    held = tensor.detach().to("cpu").contiguous()
    content: bytes = save({"visual": held, "crc32": torch.tensor([_checksum(held)])})
    return content


def _decoded(content: bytes) -> torch.Tensor | None:
    try:
        parts = load(content)
        tensor, crc32 = parts["visual"], int(parts["crc32"])
    except (SafetensorError, KeyError, ValueError, RuntimeError):
        return None
    return tensor if _checksum(tensor) == crc32 else None


def _checksum(tensor: torch.Tensor) -> int:
    """Of the bytes as they lie in memory; safetensors checks its header alone."""
    return zlib.crc32(tensor.contiguous().view(torch.uint8).numpy().data)
