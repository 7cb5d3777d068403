"""Kept visual embeddings: equal to fresh ones bit for bit, and never taken for something else's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from engines.families.loaded_model import VisionCache
from engines.measuring.timing import NullClock
from engines.stages.model import VisionRecipe
from engines.stages.preparation import vision_key
from evprof.core.protocols import RunEnded
from evprof.core.records import SpanRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches

pytestmark = pytest.mark.usefixtures("without_gradients")

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")


def rows(seed: int, count: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cache_gives_back_what_it_got(dtype: torch.dtype) -> None:
    kept, cache = rows(1, dtype=dtype), VisionCache()
    assert cache.get("a") is None
    cache.put("a", kept)
    cache.put("b", rows(2, dtype=dtype))
    found = cache.get("a")
    assert found is not None
    assert torch.equal(found, kept)


def test_the_entry_used_longest_ago_goes() -> None:
    cache = VisionCache(3 * rows(1).nbytes)
    for name in "abc":
        cache.put(name, rows(ord(name)))
    assert cache.get("a") is not None
    cache.put("d", rows(4))
    cache.put("huge", rows(5, count=1000))
    assert [name for name in ("a", "b", "c", "d", "huge") if cache.get(name) is not None] == ["a", "c", "d"]


PICTURES = [np.full((8, 8, 3), 10 * index, dtype=np.uint8) for index in range(3)]
RECIPE = VisionRecipe()


@pytest.mark.parametrize("change", [{"pooled": False}, {"fused": True}, {"keep": 0.5}])
def test_how_embeddings_are_computed_changes_the_key(change: dict[str, Any]) -> None:
    assert vision_key(PICTURES, replace(RECIPE, **change)) != vision_key(PICTURES, RECIPE)


def test_pixels_and_their_order_change_the_key() -> None:
    one = [picture.copy() for picture in PICTURES]
    one[1][3, 4, 0] += 1
    keys = {vision_key(each, RECIPE) for each in (PICTURES, one, PICTURES[::-1], PICTURES[:2], [PICTURES[0]] * 3)}
    assert len(keys) == 5
    tall, wide = (np.zeros(shape, dtype=np.uint8) for shape in ((4, 16, 3), (16, 4, 3)))
    assert vision_key([tall], RECIPE) != vision_key([wide], RECIPE)


def asked(cache: str, **more: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=4, frames=3, event_frames=3, switches=Switches(vision_cache=cache, **more))


def encode(model: Any, sample: Any, settings: GenerationSettings, clock: Any) -> torch.Tensor:
    inputs = model.preprocess(model.load(sample, settings, clock), "What?", settings, clock)
    return model.encode_vision(inputs, clock)


class Passes:
    """Counts a model's passes through its tower."""

    def __init__(self, model: Any) -> None:
        network = model.network
        tower = network.visual_tower if hasattr(network, "visual_tower") else network.frame_tower
        self.count = 0
        tower.embeddings.register_forward_hook(self._seen)

    def _seen(self, *_: Any) -> None:
        self.count += 1


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hit_equals_a_fresh_pass_bit_for_bit(family: str, make_model: Callable[..., Any], sample: Any) -> None:
    model, clock = make_model(family), NullClock()
    passes = Passes(model)
    fresh = encode(model, sample, asked("off"), clock)
    stored = encode(model, sample, asked("memory"), clock)
    assert passes.count == 2
    kept = encode(model, sample, asked("memory"), clock)
    assert passes.count == 2
    assert torch.equal(fresh, stored)
    assert torch.equal(fresh, kept)


def test_a_repeated_run_answers_the_same_from_kept_embeddings(engine: Any, sample: Any, sink: Any, never: Any) -> None:
    draft, target = ModelChoice("tiny-draft"), ModelChoice("tiny-target")
    engine.run(RunRequest("side-by-side", sample, draft, target, asked("memory"), repeat=2), sink, never)
    texts = [message.facts["text"] for message in sink.messages if isinstance(message, RunEnded)]
    assert len(texts) == 4
    # The order of a turn is random.
    assert sorted(texts[:2]) == sorted(texts[2:])
    hits = [record.run_id for record in sink.of(SpanRecord) if record.name == "vision cache hit" and record.phase == 0]
    assert hits == [3, 4]
