"""Small random language models and sinks for the engine's tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from evprof.core.records import Record

torch.set_num_threads(1)


class ListSink:
    """Keeps everything, in order."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.messages: list[Any] = []

    def append(self, record: Record) -> None:
        self.records.append(record)

    def post(self, message: Any) -> None:
        self.messages.append(message)

    def of(self, kind: type) -> list[Any]:
        return [record for record in self.records if type(record) is kind]


class StopAfter:
    """A stop flag that is set from the n-th time it is asked."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > self.count


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


@pytest.fixture(scope="session")
def stop_after() -> type[StopAfter]:
    return StopAfter


@pytest.fixture(scope="session")
def make_llama() -> Callable[..., LlamaForCausalLM]:
    """Makes a Llama in fp32 whose weights are drawn with a spread wide enough for varied text."""

    def make(
        seed: int = 0, *, layers: int = 2, hidden: int = 64, vocabulary: int = 257, std: float = 0.2, kv_heads: int = 2
    ) -> LlamaForCausalLM:
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=kv_heads,
            max_position_embeddings=512,
            initializer_range=std,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture
def without_gradients() -> Any:
    """As the engine runs: no gradients."""
    with torch.inference_mode():
        yield
