"""What is said before loading: what a model needs, whether two fit, what a checkpoint holds, random models."""

from __future__ import annotations

import threading

import pytest
import torch

from engines.decoder.kv_cache import DynamicKv
from engines.fit.advice import BOTH, IN_TURN, REFUSED, place, shortage
from engines.fit.requirements import MemoryNeed, memory_need, model_shape, stored_weights
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import build_random, random_config
from engines.loading.weights import load_model
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.metrics.limits.packed_sizes import weight_bytes
from tensor_names import tensor_names

GIB = 1 << 30


def need(name: str, gib: int, *, device: str = "cpu", dtype: str = "float32") -> MemoryNeed:
    return MemoryNeed(name, "draft", device, dtype, gib * GIB - 2, 1, 1)


def test_both_one_or_none_fit() -> None:
    pair = [need("a", 4), need("b", 6)]
    assert place(pair, {"cpu": 10 * GIB}) == BOTH
    assert place(pair, {"cpu": 10 * GIB - 1}) == IN_TURN
    assert place(pair, {"cpu": 6 * GIB}) == IN_TURN
    assert place(pair, {"cpu": 6 * GIB - 1}) == REFUSED
    assert shortage(pair, {"cpu": 6 * GIB - 1}).startswith("b needs 6.00 GiB on cpu (weights 6.00 GiB, KV cache 1 B")
    assert shortage(pair, {"cpu": 9 * GIB}) == "a and b need 10.00 GiB together on cpu, but 9.00 GiB is free"


def test_needs_follow_the_published_figures() -> None:
    """EventGPT-7B: 13.19 GiB in bfloat16; LLaMA-7B's cache: 0.5 MiB a position in 16 bits."""
    choice = ModelChoice("random:7b-eventgpt", device="cpu", dtype="bfloat16")
    found = memory_need(
        choice, "draft", GenerationSettings(max_new_tokens=128, speculation=SpeculationSettings(gamma=5)), question=16
    )
    assert found.weight_bytes == 2 * 7_079_684_096
    assert found.kv_bytes == (582 + 80 + 128 + 5 + 1) * 512 * 1024
    assert 0 < found.activation_bytes < 2 * GIB
    more = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128, event_frames=9))
    assert more.kv_bytes - found.kv_bytes == 4 * 512 * 1024
    llava = memory_need(ModelChoice("random:7b-llava", dtype="bfloat16", device="cpu"), "target", GenerationSettings())
    assert llava.kv_bytes == (8 * 576 + 80 + 134) * 512 * 1024
    assert llava.weight_bytes == 2 * 7_063_427_072


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("int8", 4096 * (1008 + 4)), ("int4", 4096 * 8 * (64 + 2)), ("nf4", 4096 * 500 + 64_000 * 4 + 64)],
)
def test_a_quantized_matrix(kind: str, expected: int) -> None:
    assert weight_bytes(kind, 4096, 1000, 2) == expected
    assert weight_bytes(None, 4096, 1000, 2) == 2 * 4096 * 1000


def test_only_the_projections_are_quantized() -> None:
    """Embeddings, head, tower and projector keep their dtype: LLaMA-7B has 6,476,005,376 weights in its projections."""
    shape = model_shape(ModelChoice("random:7b-eventgpt"))
    inside = sum(rows * columns for rows, columns in shape.matrices)
    assert inside == 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008) == 6_476_005_376
    outside = 2 * (7_079_684_096 - inside)
    assert stored_weights(shape, None, 2) == outside + 2 * inside
    rows = sum(rows for rows, _ in shape.matrices)
    assert stored_weights(shape, "int8", 2) == outside + inside + 4 * rows
    assert stored_weights(shape, "int4", 2) == outside + inside // 2 + inside // 128 * 2


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
        model.language_model.lm_head.weight,
    )
