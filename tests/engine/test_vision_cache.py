"""Kept visual embeddings: equal to fresh ones bit for bit, and never taken for something else's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engines.measuring.timing import NullClock
from engines.stages.pixel_values import ClipTransform
from engines.stages.vision_cache import DiskCache, MemoryCache, checkpoint_identity, vision_key
from evprof.core.protocols import RunEnded
from evprof.core.records import SpanRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches

pytestmark = pytest.mark.usefixtures("without_gradients")

FAMILIES = ("eventgpt", "llava", "video_llava", "llava_next_video")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where disk caches go."""
    monkeypatch.setattr("engines.stages.vision_cache.cache_folder", lambda: tmp_path)
    return tmp_path / "vision"


def rows(seed: int, count: int = 4, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(count, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_both_caches_give_back_what_they_got(dtype: torch.dtype, folder: Path) -> None:
    kept = rows(1, dtype=dtype)
    for cache in (MemoryCache(), DiskCache(folder)):
        assert cache.get("a") is None
        cache.put("a", kept)
        cache.put("b", rows(2, dtype=dtype))
        found = cache.get("a")
        assert found is not None
        assert found.dtype == dtype
        assert torch.equal(found.view(torch.uint8), kept.view(torch.uint8))


def test_the_disk_is_bounded_and_the_one_used_longest_ago_goes(folder: Path) -> None:
    DiskCache(folder).put("a", rows(1))
    size = (folder / "a.safetensors").stat().st_size
    cache = DiskCache(folder, limit_bytes=3 * size)
    for age, name in enumerate("abc"):
        cache.put(name, rows(ord(name)))
        os.utime(folder / f"{name}.safetensors", ns=(age * 10**9, age * 10**9))
    assert cache.get("a") is not None
    cache.put("d", rows(4))
    assert sorted(path.stem for path in folder.iterdir()) == ["a", "c", "d"]
    cache.put("huge", rows(5, count=1000))
    assert sorted(path.stem for path in folder.iterdir()) == ["a", "c", "d"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "other tensors", "pickled"])
def test_a_damaged_file_is_a_miss_and_goes(damage: str, folder: Path) -> None:
    from safetensors.torch import save

    cache = DiskCache(folder)
    cache.put("a", rows(1))
    path = folder / "a.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[:-3]
    elif damage == "flipped":
        content[-5] ^= 1
    elif damage == "emptied":
        content = bytearray()
    elif damage == "other tensors":
        content = bytearray(save({"something": rows(1)}))
    else:
        torch.save(rows(1), path)
        content = bytearray(path.read_bytes())
    path.write_bytes(content)
    assert cache.get("a") is None
    assert not path.exists()
    cache.put("a", rows(1))
    assert cache.get("a") is not None


PICTURES = [np.full((8, 8, 3), 10 * index, dtype=np.uint8) for index in range(3)]
ABOUT = {"weights": "w", "dtype": torch.float32, "transform": ClipTransform.square(8)}


@pytest.mark.parametrize(
    "change",
    [
        {"weights": "other"},
        {"dtype": torch.bfloat16},
        {"transform": ClipTransform.square(10)},
        {"transform": ClipTransform(8, (8, 8), (0.5, 0.5, 0.5))},
    ],
)
def test_what_embeddings_depend_on_changes_the_key(change: dict[str, Any]) -> None:
    assert vision_key(PICTURES, {**ABOUT, **change}) != vision_key(PICTURES, ABOUT)


def test_pixels_and_their_order_change_the_key() -> None:
    one = [picture.copy() for picture in PICTURES]
    one[1][3, 4, 0] += 1
    keys = {vision_key(each, ABOUT) for each in (PICTURES, one, PICTURES[::-1], PICTURES[:2], [PICTURES[0]] * 3)}
    assert len(keys) == 5
    tall, wide = (np.zeros(shape, dtype=np.uint8) for shape in ((4, 16, 3), (16, 4, 3)))
    assert vision_key([tall], ABOUT) != vision_key([wide], ABOUT)


def test_a_checkpoint_is_told_by_its_files(tmp_path: Path) -> None:
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for path in files:
        path.write_bytes(b"1234")
    identity = checkpoint_identity("name", files)
    assert identity == checkpoint_identity("name", files)
    assert identity != checkpoint_identity("name", files[:1])
    assert checkpoint_identity("random:a", []) != checkpoint_identity("random:b", [])
    os.utime(files[1], ns=(1, 1))
    later = checkpoint_identity("name", files)
    assert later != identity
    files[1].write_bytes(b"12345")
    os.utime(files[1], ns=(1, 1))
    assert checkpoint_identity("name", files) not in (identity, later)


def asked(cache: str, **more: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=4, frames=3, event_frames=3, switches=Switches(vision_cache=cache, **more))


def encode(model: Any, sample: Any, settings: GenerationSettings, clock: Any) -> torch.Tensor:
    inputs = model.preprocess(model.load(sample, settings, clock), "What?", settings, clock)
    visual: torch.Tensor = model.encode_vision(inputs, clock)
    return visual


class Passes:
    """Counts a model's passes through its tower."""

    def __init__(self, model: Any) -> None:
        network = model.network
        tower = network.visual_tower if hasattr(network, "visual_tower") else network.frame_tower
        self.count = 0
        tower.embeddings.register_forward_hook(self._seen)

    def _seen(self, *_: Any) -> None:
        self.count += 1


@pytest.mark.parametrize("cache", ["memory", "disk"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hit_equals_a_fresh_pass_bit_for_bit(
    family: str, cache: str, make_model: Callable[..., Any], sample: Any
) -> None:
    model, clock = make_model(family), NullClock()
    passes = Passes(model)
    fresh = encode(model, sample, asked("off"), clock)
    stored = encode(model, sample, asked(cache), clock)
    assert passes.count == 2
    kept = encode(model, sample, asked(cache), clock)
    assert passes.count == 2
    assert torch.equal(fresh, stored)
    assert torch.equal(fresh, kept)


def test_a_disk_serves_the_next_program_and_another_dtype_misses(make_model: Callable[..., Any], sample: Any) -> None:
    clock = NullClock()
    first = encode(make_model("eventgpt"), sample, asked("disk"), clock)
    again = make_model("eventgpt")
    passes = Passes(again)
    assert torch.equal(encode(again, sample, asked("disk"), clock), first)
    assert passes.count == 0
    half = make_model("eventgpt", dtype=torch.bfloat16)
    passes = Passes(half)
    assert encode(half, sample, asked("disk"), clock).dtype == torch.bfloat16
    assert passes.count == 1


def test_a_repeated_run_answers_the_same_from_kept_embeddings(engine: Any, sample: Any, sink: Any, never: Any) -> None:
    draft, target = ModelChoice("tiny-draft"), ModelChoice("tiny-target")
    engine.run(RunRequest("side-by-side", sample, draft, target, asked("memory"), repeat=2), sink, never)
    texts = [message.facts["text"] for message in sink.messages if isinstance(message, RunEnded)]
    assert len(texts) == 4
    assert texts[:2] == texts[2:]
    hits = [record.run_id for record in sink.of(SpanRecord) if record.name == "vision cache hit" and record.phase == 0]
    assert hits == [3, 4]
