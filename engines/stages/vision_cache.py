"""Stage vision with kept embeddings: in memory or on disk, under a key of everything they depend on.

A kept entry equals the same computation bit for bit. Before its first measured pass, each recipe runs once: libraries
load and choose kernels on first use, which belongs to setup.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from engines.measuring.timing import NullClock, StageClock
from engines.stages.model import ModelInputs, VisionRecipe
from engines.stages.pixel_values import ClipTransform
from engines.tokens.uploads import moved
from evprof.core.files.user_folders import cache_folder
from evprof.core.run_info import LengthFacts
from evprof.loaders.content import KeptFiles
from evprof.loaders.pictures.render import Picture

OFF, MEMORY, DISK = "off", "memory", "disk"
"""Where embeddings are kept."""

MEMORY_BYTES = 512 << 20
DISK_BYTES = 2 << 30
"""Bounds of the two; past them the entry used longest ago goes first."""


def checkpoint_identity(name: str, files: Iterable[Path]) -> str:
    stats = [(str(path.resolve()), path.stat()) for path in files]
    return json.dumps([name, [(place, stat.st_size, stat.st_mtime_ns) for place, stat in stats]])


def vision_key(pictures: Sequence[Picture], depends_on: Mapping[str, Any]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(depends_on):
        digest.update(f"{name}={depends_on[name]!r}\n".encode())
    for picture in pictures:
        digest.update(repr((picture.shape, str(picture.dtype))).encode())
        digest.update(picture.tobytes())
    return digest.hexdigest()


class MemoryCache:
    def __init__(self, limit_bytes: int = MEMORY_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: OrderedDict[str, torch.Tensor] = OrderedDict()

    @property
    def nbytes(self) -> int:
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


class KeptVision:
    def __init__(
        self, identity: str, network: str, transform: ClipTransform, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._device = device
        self._depends_on = {
            "weights": identity,
            "network": network,
            "transform": transform,
            "dtype": dtype,
            # Counted up when the tower's pass rounds differently.
            "pass": 2,
            # Another device or another release may round the last bit differently.
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            "torch": torch.__version__,
        }
        self._stores: dict[str, MemoryCache | DiskCache] = {MEMORY: MemoryCache()}

    def key(self, cuts: Sequence[Picture], recipe: VisionRecipe) -> str:
        prunes = (recipe.keep, recipe.prune_by) if recipe.keep < 1 else None
        how = {"pooled": recipe.pooled, "fused": recipe.fused, "prunes": prunes}
        return vision_key(cuts, {**self._depends_on, **how})

    def encode(self, inputs: ModelInputs, spans: StageClock, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Kept visual embeddings, or the result of `compute`. A disk that refuses them is a warning."""
        recipe = inputs.recipe
        if recipe.cache == OFF:
            return compute()
        if recipe.cache not in self._stores:
            self._stores[recipe.cache] = DiskCache()
        store = self._stores[recipe.cache]
        with spans.child("vision cache look-up"):
            found = store.get(recipe.key)
        if found is not None:
            with spans.child("vision cache hit") as span:
                visual = moved(found, self._device)
                span.output("visual embeddings", visual)
            return visual
        visual = compute()
        with spans.child("vision cache store") as span:
            span.input("visual embeddings", visual)
            try:
                store.put(recipe.key, visual)
            except OSError as error:
                inputs.warnings.append(
                    f"Visual embeddings could not be kept on disk ({error.strerror or error}); this run computed them "
                    "as usual."
                )
        return visual


def with_key(recipe: VisionRecipe, kept: KeptVision, cuts: Sequence[Picture], spans: StageClock) -> VisionRecipe:
    """The recipe with its key, as a measured part, when embeddings are to be kept; unchanged otherwise."""
    if recipe.cache == OFF:
        return recipe
    with spans.child("cache key"):
        return replace(recipe, key=kept.key(cuts, recipe))


Encode = Callable[[ModelInputs, StageClock], torch.Tensor]
"""Stage vision without kept embeddings."""


class Rehearsal:
    def __init__(self, edge: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self._edge = edge
        self._device, self._dtype = device, dtype
        self._done: set[VisionRecipe] = set()

    def perform(self, recipe: VisionRecipe, encode: Encode) -> None:
        recipe = replace(recipe, cache=OFF, key="")
        if recipe in self._done:
            return
        with torch.inference_mode():
            pixels = torch.zeros(1, 3, self._edge, self._edge, device=self._device, dtype=self._dtype)
            nothing = torch.zeros(0, device=self._device, dtype=torch.long)
            encode(ModelInputs(pixels, (), nothing, (), LengthFacts(0, 0, 0, 0), recipe=recipe), NullClock())
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._done.add(recipe)
