"""What is said before loading is what a run then takes: weights and cache exactly, activations closely."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import CLIPVisionConfig, LlamaConfig

from engines.checkpoints.config import ModelConfig
from engines.decoder.llama import LlamaDecoder
from engines.decoder.quantized_kv import make_cache
from engines.engine import LocalEngine
from engines.families.eventgpt import EventGptConfig
from engines.families.llava_model import LlavaConfig
from engines.fit.requirements import ModelShape, memory_need
from engines.hardware.device import AssumedMachine
from engines.loading.shapes import build_random
from engines.loading.weights import load_model
from evprof.core.recording import RecordLog
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches

SETTINGS = GenerationSettings(max_new_tokens=6, frames=4)
VISION = CLIPVisionConfig(
    hidden_size=64, intermediate_size=256, num_hidden_layers=3, num_attention_heads=2, image_size=112, patch_size=14
)
TEXT = LlamaConfig(
    vocab_size=32_000, hidden_size=128, intermediate_size=344, num_hidden_layers=3, num_attention_heads=4
)


class Allocations(TorchDispatchMode):
    """Counts bytes of storages that are alive at once among those made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {leaf.untyped_storage()._cdata for leaf in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        for leaf in _tensors(result):
            storage = leaf.untyped_storage()
            if storage._cdata not in given and storage._cdata not in self._alive:
                self._alive[storage._cdata] = storage.nbytes()
                _when_freed(storage, self._alive)
        self.peak = max(self.peak, sum(self._alive.values()))
        return result


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _when_freed(storage: torch.UntypedStorage, alive: dict[int, int]) -> None:
    weakref.finalize(storage, alive.pop, storage._cdata, None)


@pytest.mark.parametrize("name", ["evprof-tiny-eventgpt", "evprof-tiny-video-llava"])
def test_weights_and_cache_are_exact(name: str, sample: Any) -> None:
    role = "draft" if "eventgpt" in name else "target"
    choice = ModelChoice(name, device="cpu")
    recording = RecordLog()
    engine = LocalEngine(loader=load_model)
    draft, target = (choice, None) if role == "draft" else (None, choice)
    engine.run(RunRequest(role, sample, draft, target, SETTINGS), recording, threading.Event())
    engine.close()
    book = RunBook(recording)
    book.update()
    (run,) = book.runs.values()
    assert run.info.status == "finished", run.info.error
    need = memory_need(choice, role, SETTINGS)
    assert need.weight_bytes == run.info.models[role].weight_bytes
    assert need.positions.visual == run.info.lengths[role].visual
    spare = need.positions.prompt - run.info.lengths[role].input
    assert 0 <= spare < 112
    position = need.kv_bytes // need.positions.total
    assert run.info.kv[role].reserved_bytes == need.kv_bytes - spare * position


def config_of(family: str) -> ModelConfig:
    return (
        EventGptConfig(VISION, TEXT)
        if family == "eventgpt"
        else LlavaConfig(VISION, TEXT, family="llava", slot_id=31_999)
    )


@pytest.mark.parametrize("family", ["eventgpt", "llava"])
@pytest.mark.parametrize("chunk", [0, 32])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_activations_are_close(family: str, chunk: int, attention: str) -> None:
    """The largest moment of a vision pass and a prefill, counted tensor by tensor, is hardly above what was said."""
    config = config_of(family)
    network = build_random(config, torch.device("cpu"), torch.float32, lambda *_: None, threading.Event())
    decoder = LlamaDecoder.take_over(network.language_model)
    decoder.attention = attention
    settings = GenerationSettings(frames=4, event_frames=4, switches=Switches(attention=attention, prefill_chunk=chunk))
    shape = ModelShape("m", config, 1, ())
    choice = ModelChoice("m", device="cpu", dtype="float32")
    need = memory_need(choice, "draft", settings, machine=AssumedMachine(1), shape=shape)
    pixels = torch.zeros(4, 3, 112, 112)
    with torch.inference_mode():
        network.encode_frames(pixels)  # fuses weights
        with Allocations() as vision:
            network.encode_frames(pixels)
        embeddings = torch.zeros(1, need.positions.prompt, 128)
        cache = make_cache(
            "static",
            decoder.config,
            capacity=need.positions.total,
            device=torch.device("cpu"),
            dtype=torch.float32,
        )
        with Allocations() as prefill:
            for part in embeddings.split(chunk or embeddings.shape[1], dim=1):
                decoder(part, cache)
    counted = max(vision.peak, prefill.peak + embeddings.nbytes)
    assert 0.8 * need.activation_bytes <= counted <= 1.02 * need.activation_bytes
