"""Stage vision with kept embeddings in front of it: looked up, handed out on a hit, put away on a miss.

It knows when embeddings may be used again, not how they are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from engines.measuring.timing import StageClock
from engines.stages.model import ModelInputs, VisionRecipe
from engines.stages.pixel_values import ClipTransform
from engines.stages.vision_cache import MEMORY, OFF, DiskCache, MemoryCache, vision_key
from engines.tokens.uploads import moved
from evprof.loaders.pictures.render import Picture


class KeptVision:
    """One model's kept embeddings.

    `identity` tells its weights from all others, `network` spells what its configuration makes of them. Memory holds
    them on the model's own device, so that a hit costs no transfer and they are freed with the model.
    """

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
        """The key of what `recipe` makes of the cut pictures."""
        prunes = (recipe.keep, recipe.prune_by) if recipe.keep < 1 else None
        how = {"pooled": recipe.pooled, "fused": recipe.fused, "prunes": prunes}
        return vision_key(cuts, {**self._depends_on, **how})

    def encode(self, inputs: ModelInputs, spans: StageClock, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Visual embeddings: kept ones where the recipe allows and there are any, else those `compute` makes.

        A disk that refuses to keep them is a warning, not a failure.
        """
        recipe = inputs.recipe
        if recipe.cache == OFF:
            return compute()
        store = self._store(recipe.cache)
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

    def _store(self, place: str) -> MemoryCache | DiskCache:
        """Made when first asked for: nobody needs a folder for what is not kept in one."""
        if place not in self._stores:
            self._stores[place] = DiskCache()
        return self._stores[place]


def with_key(recipe: VisionRecipe, kept: KeptVision, cuts: Sequence[Picture], spans: StageClock) -> VisionRecipe:
    """The recipe with its key, as a measured part, when embeddings are to be kept; unchanged otherwise."""
    if recipe.cache == OFF:
        return recipe
    with spans.child("cache key"):
        return replace(recipe, key=kept.key(cuts, recipe))
