"""What is said before loading: what a model needs, whether two fit, what a checkpoint holds, random models."""

from __future__ import annotations

import threading

import psutil
import pytest
import torch

from engines import CATALOGUE, FAMILIES, WANTS
from engines.inspection import inspect_checkpoint, tensor_names
from engines.kv_cache import DynamicKv
from engines.loading import load_model
from engines.memory import BOTH, IN_TURN, MemoryNeed, free_bytes, memory_need, plan_placement
from engines.random_weights import build_random, random_config
from evprof.core.errors import Cancelled, UserError
from evprof.core.request import GenerationSettings, ModelChoice

GIB = 1 << 30


def need(name: str, gib: int, *, device: str = "cpu", dtype: str = "float32") -> MemoryNeed:
    return MemoryNeed(name, "draft", device, dtype, gib * GIB - 2, 1, 1)


def test_both_one_or_none_fit() -> None:
    pair = [need("a", 4), need("b", 6)]
    assert plan_placement(pair, {"cpu": 10 * GIB}) == BOTH
    assert plan_placement(pair, {"cpu": 10 * GIB - 1}) == IN_TURN
    assert plan_placement(pair, {"cpu": 6 * GIB}) == IN_TURN
    with pytest.raises(UserError, match="b needs") as caught:
        plan_placement(pair, {"cpu": 6 * GIB - 1})
    assert "--dtype bfloat16" in caught.value.sentence
    with pytest.raises(UserError, match="both at once"):
        plan_placement(pair, {"cpu": 9 * GIB}, together=True)


def test_devices_are_counted_apart() -> None:
    pair = [need("a", 4), need("b", 6, device="cuda:0", dtype="bfloat16")]
    free = {"cpu": 4 * GIB, "cuda:0": 6 * GIB}
    assert plan_placement(pair, free, together=True) == BOTH
    with pytest.raises(UserError, match="b needs") as caught:
        plan_placement(pair, {"cpu": 4 * GIB, "cuda:0": 5 * GIB})
    assert "bfloat16" not in caught.value.sentence


def test_a_loaded_model_needs_its_weights_no_more() -> None:
    pair = [need("a", 4).loaded(), need("b", 6)]
    assert plan_placement(pair, {"cpu": 6 * GIB + 2}) == BOTH


def test_needs_follow_the_published_figures() -> None:
    """EventGPT-7B: 13.19 GiB in bfloat16; LLaMA-7B's cache: 0.5 MiB a position in 16 bits."""
    choice = ModelChoice("random:7b-eventgpt", device="cpu", dtype="bfloat16")
    found = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128))
    assert found.weight_bytes == 2 * 7_079_684_096
    assert found.kv_bytes == (582 + 256 + 128) * 512 * 1024
    assert 0 < found.activation_bytes < 2 * GIB
    more = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128, event_frames=9))
    assert more.kv_bytes - found.kv_bytes == 4 * 512 * 1024
    llava = memory_need(ModelChoice("random:7b-llava", dtype="bfloat16", device="cpu"), "target", GenerationSettings())
    assert llava.kv_bytes == (8 * 576 + 256 + 128) * 512 * 1024
    assert llava.weight_bytes == 2 * 7_063_427_072


def test_free_memory_is_this_machines() -> None:
    total = psutil.virtual_memory().total
    assert 0 < free_bytes(torch.device("cpu")) < total


def test_a_7b_eventgpt_has_exactly_the_published_tensors() -> None:
    found = inspect_checkpoint("random:7b-eventgpt")
    assert found["tensors"] == 688
    assert found["parameters"] == 7_079_684_096
    assert found["family"] == "eventgpt"
    assert found["model_type"] == "EventChat_llama"
    assert found["visual_tokens_per_frame"] == 577
    assert found["context_limit"] == 4096
    assert found["missing"] == found["surplus"] == found["problems"] == []
    names = tensor_names(random_config("random:7b-eventgpt"))
    assert len(set(names)) == 688
    assert sum(name.startswith("model.visual_tower.visual_tower.vision_model.") for name in names) == 391
    assert sum(name.startswith(("model.layers.", "model.norm", "model.embed", "lm_head")) for name in names) == 291


@pytest.mark.parametrize(
    ("name", "parameters", "per_frame"),
    [("random:7b-llava", 7_063_427_072, 576), ("random:7b-video-llava", 7_366_279_168, 257)],
)
def test_the_other_7b_shapes(name: str, parameters: int, per_frame: int) -> None:
    found = inspect_checkpoint(name)
    assert found["parameters"] == parameters
    assert found["visual_tokens_per_frame"] == per_frame
    assert inspect_checkpoint(name)["bytes"] is None


def test_the_catalogue_is_whole() -> None:
    for entry in CATALOGUE:
        assert entry.family in FAMILIES
        assert WANTS[entry.family] == ("events" if entry.role == "draft" else "video")
        if entry.is_random:
            assert inspect_checkpoint(entry.name)["family"] == entry.family


def test_random_text_is_varied_and_the_same_every_time() -> None:
    never = threading.Event()
    told: list[tuple[int, int]] = []
    choice = ModelChoice("random:160m-eventgpt", device="cpu", dtype="float32")
    model = load_model(choice, "draft", lambda done, total: told.append((done, total)), never)
    assert told[-1][0] == told[-1][1] == model.facts.weight_bytes
    assert model.facts.layers == 12
    assert model.facts.kv_heads * model.facts.head_dim == 768
    with torch.inference_mode():
        given = torch.tensor([[model.vocabulary.bos_id, *model.vocabulary.encode("What is in the scene?")]])
        ids: list[int] = []
        decoder = model.language_model
        cache = DynamicKv(len(decoder.layers))
        for _ in range(40):
            given = decoder(decoder.embed(given), cache)[:, -1:].argmax(-1)
            ids.append(int(given))
    assert len(set(ids)) >= 30
    text = model.vocabulary.decode(ids)
    assert not set(ids) & {0, 1, 2}
    assert len(text.split()) >= 30
    again = build_random(random_config(choice.name), torch.device("cpu"), torch.float32, lambda *_: None, never)
    assert torch.equal(
        again.language_model.lm_head.weight,
        model.language_model.lm_head.weight,  # type: ignore[union-attr, arg-type]
    )


def test_stop_is_seen_while_drawing_weights() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        load_model(ModelChoice("random:160m-eventgpt"), "draft", lambda *_: None, stop)
