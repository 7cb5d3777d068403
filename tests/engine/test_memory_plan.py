"""What is said before loading: what a model needs, whether two fit, what a checkpoint holds, random models."""

from __future__ import annotations

import threading
from dataclasses import replace

import psutil
import pytest
import torch

from engines import CATALOGUE
from engines.decoder.kv_cache import DynamicKv
from engines.fit.advice import BOTH, IN_TURN, REFUSED, place, shortage
from engines.fit.requirements import MemoryNeed, batch_capacity, memory_need, model_shape, stored_weights
from engines.hardware.device import AssumedMachine, free_bytes
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import build_random, random_config, vision_shape
from engines.loading.weights import load_model
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches
from evprof.metrics.limits.memory_need import vision_bytes
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


def test_devices_are_counted_apart() -> None:
    pair = [need("a", 4), need("b", 6, device="cuda:0", dtype="bfloat16")]
    assert place(pair, {"cpu": 4 * GIB, "cuda:0": 6 * GIB}) == BOTH
    assert place(pair, {"cpu": 4 * GIB, "cuda:0": 5 * GIB}) == REFUSED


def test_a_loaded_model_needs_its_weights_no_more() -> None:
    pair = [need("a", 4).loaded(), need("b", 6)]
    assert place(pair, {"cpu": 6 * GIB + 2}) == BOTH


def test_needs_follow_the_published_figures() -> None:
    """EventGPT-7B: 13.19 GiB in bfloat16; LLaMA-7B's cache: 0.5 MiB a position in 16 bits."""
    choice = ModelChoice("random:7b-eventgpt", device="cpu", dtype="bfloat16")
    found = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128, gamma=5), question=16)
    assert found.weight_bytes == 2 * 7_079_684_096
    assert found.kv_bytes == (582 + 80 + 128 + 5 + 1) * 512 * 1024
    assert 0 < found.activation_bytes < 2 * GIB
    more = memory_need(choice, "draft", GenerationSettings(max_new_tokens=128, event_frames=9))
    assert more.kv_bytes - found.kv_bytes == 4 * 512 * 1024
    llava = memory_need(ModelChoice("random:7b-llava", dtype="bfloat16", device="cpu"), "target", GenerationSettings())
    assert llava.kv_bytes == (8 * 576 + 80 + 134) * 512 * 1024
    assert llava.weight_bytes == 2 * 7_063_427_072


def switched(**switches: object) -> MemoryNeed:
    choice = ModelChoice("random:7b-video-llava", device="cpu", dtype="bfloat16")
    settings = GenerationSettings(switches=Switches(**switches))  # type: ignore[arg-type]  # as the test says
    return memory_need(choice, "target", settings)


def test_switches_change_the_need() -> None:
    plain = switched()
    assert switched(prefill_chunk=256).activation_bytes < plain.activation_bytes
    assert switched(prefill_chunk=256).kv_bytes == plain.kv_bytes
    scores = 32 * 2136 * 2136 * (2 + 4)
    assert scores < switched(attention="eager").activation_bytes < 1.3 * scores
    assert switched(visual_keep=0.5).positions.visual == 8 * 129
    assert switched(cache="dynamic").kv_bytes == plain.kv_bytes
    layer = plain.kv_bytes // 32
    assert switched(cache="dynamic").activation_bytes - plain.activation_bytes == layer
    assert switched(cache="fp8").kv_bytes == plain.kv_bytes // 2
    assert switched(cache="fp8").activation_bytes - plain.activation_bytes == 2 * layer
    position = plain.kv_bytes // 2270
    waiting = 128 * position
    assert switched(cache="hqq8").kv_bytes == (plain.kv_bytes - waiting) * (1 + 4 / 64) / 2 + waiting
    assert switched(cache="hqq4").kv_bytes == (plain.kv_bytes - waiting) * (0.5 + 4 / 64) / 2 + waiting


def test_captured_steps_end_their_cache_at_a_bucket() -> None:
    """On a GPU, unless steps are eager; nobody's device is touched."""

    def need_on_a_gpu(**switches: object) -> MemoryNeed:
        choice = ModelChoice("random:7b-eventgpt", device="cuda:0", dtype="bfloat16")
        settings = GenerationSettings(switches=Switches(**switches))  # type: ignore[arg-type]  # as the test says
        return memory_need(choice, "draft", settings, machine=AssumedMachine(GIB))

    captured, eager = need_on_a_gpu(), need_on_a_gpu(step="eager")
    assert eager.positions.spare == need_on_a_gpu(cache="dynamic").positions.spare == 0
    assert eager.positions.total == 582 + 80 + 134
    assert captured.positions.total == 1024
    assert captured.kv_bytes == 1024 * 512 * 1024
    # The vision tower's graph keeps the memory of a pass beside the prefill's.
    shown = replace(vision_shape(random_config("random:7b-eventgpt")), frames=5)
    more = captured.workspace_bytes - eager.workspace_bytes
    assert more == vision_bytes(shown, 4096, 2) == captured.activation_bytes - eager.activation_bytes
    per_sample = batch_capacity(captured, 24 * GIB).kv_bytes_per_sample
    assert per_sample == batch_capacity(eager, 24 * GIB).kv_bytes_per_sample == eager.kv_bytes


def test_weights_wait_unpacked_until_they_are_quantized() -> None:
    """On a CPU beside nothing else, for a GPU on the host."""
    choice = ModelChoice("random:7b-eventgpt", device="cpu", dtype="bfloat16", quantization="nf4")
    here = memory_need(choice, "draft", GenerationSettings())
    assert here.weight_bytes < 2 * 7_079_684_096 // 2
    assert here.total_bytes == here.weight_bytes + here.loading_bytes == 2 * 7_079_684_096
    assert here.host_bytes == 0
    there = memory_need(replace(choice, device="cuda:0"), "draft", GenerationSettings(), machine=AssumedMachine(GIB))
    assert there.loading_bytes == 0
    assert there.host_bytes == 2 * 7_079_684_096
    plain = memory_need(replace(choice, quantization=None), "draft", GenerationSettings())
    assert here.activation_bytes - plain.activation_bytes == 2 * 11008 * 4096 * 2
    assert there.loaded().host_bytes == here.loaded().loading_bytes == 0


def test_the_host_must_hold_what_is_packed_there() -> None:
    packed = replace(need("a", 4, device="cuda:0"), host_bytes=13 * GIB)
    beside = need("b", 6)
    free = {"cuda:0": 8 * GIB, "cpu": 16 * GIB}
    assert place([packed], free) == BOTH
    assert place([packed], {"cuda:0": 8 * GIB}) == BOTH
    assert place([packed, beside], free) == IN_TURN
    assert "a and b need 19.00 GiB together on cpu" in shortage([packed, beside], free)
    assert place([packed], free | {"cpu": 12 * GIB}) == REFUSED
    assert "a needs 13.00 GiB of the machine's own memory" in shortage([packed], free | {"cpu": 12 * GIB})


def test_eventgpt_keeps_its_temporal_means() -> None:
    choice = ModelChoice("random:7b-eventgpt", device="cpu")
    kept = memory_need(choice, "draft", GenerationSettings(switches=Switches(visual_keep=0.1)))
    assert kept.positions.visual == 5 + 58


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
        assert FAMILIES[entry.family].role == entry.role
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
        model.language_model.lm_head.weight,
    )


def test_stop_is_seen_while_drawing_weights() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        load_model(ModelChoice("random:160m-eventgpt"), "draft", lambda *_: None, stop)
