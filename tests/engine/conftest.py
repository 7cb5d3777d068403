"""Small random language models and sinks for the engine's tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from PIL import Image
from transformers import LlamaForCausalLM

from evprof.core.errors import Cancelled
from evprof.core.records import Record
from painted_videos import paint
from small_models import UNENDING, small_text, small_vision

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_cache_on_a_gpu(request, tmp_path_factory, monkeypatch) -> None:
    """Tests for a GPU share one cache folder: what they do must not depend on what the user measured there."""
    if "cuda" in request.path.stem:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


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
        config = small_text(
            vocabulary,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_key_value_heads=kv_heads,
            initializer_range=std,
            **UNENDING,
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture
def without_gradients() -> Any:
    """As the engine runs: no gradients."""
    with torch.inference_mode():
        yield


class TinyModels:
    """A loader of small random models in both families, which counts what it loads; networks are built once."""

    _networks: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.loaded: list[str] = []

    def __call__(self, choice: Any, role: str, progress: Any, stop: Any) -> Any:

        from engines.decoder.llama import LlamaDecoder
        from engines.families.eventgpt import EventGptConfig
        from engines.families.llava_model import LlavaConfig
        from engines.families.networks import engine_family
        from engines.loading.shapes import build_random, random_vocabulary
        from engines.loading.weights import Checkpoint, model_facts
        from engines.stages.pixel_values import ClipTransform

        self.loaded.append(role)
        vision = small_vision(num_attention_heads=2, image_size=28, projection_dim=32)
        rows = 32_000 if role == "draft" else 32_003
        text = small_text(
            rows,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2 if role == "draft" else 4,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
        config = (
            EventGptConfig(vision, text)
            if role == "draft"
            else LlavaConfig(vision, text, family="video_llava", slot_id=32_001, keeps_cls=True)
        )
        device, dtype = torch.device("cpu"), torch.float32
        if role not in self._networks:
            # Kept for other tests, of which some train on them: no tensors that know no gradients.
            with torch.inference_mode(False):
                network = build_random(config, device, dtype, progress, threading.Event())
                self._networks[role] = network, LlamaDecoder.take_over(network.language_model)
        network, decoder = self._networks[role]
        progress(1, 2)
        if stop.is_set():
            raise Cancelled
        progress(2, 2)
        facts = model_facts(Checkpoint(f"tiny-{role}", config, None), network, device, dtype)
        family = engine_family(config.family)
        vocabulary, transform = random_vocabulary(config), ClipTransform.square(28)
        return family.model(network, decoder, vocabulary, transform, facts=facts, template=family.layout(config))


@pytest.fixture
def tiny_models() -> TinyModels:
    return TinyModels()


@pytest.fixture
def engine(tiny_models: TinyModels) -> Any:
    from engines.engine import LocalEngine

    made = LocalEngine(loader=tiny_models, make_room=lambda *_: None)
    yield made
    made.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A bundled recording with its video; with painted pictures where nothing decodes films (bare GPU machines)."""
    import assets
    from evprof.core.sample import Sample

    folder = Path(assets.__file__).parent / "samples" / "bus-approaching"
    video = folder / "video.mp4"
    if find_spec("av") is None:
        video = tmp_path_factory.mktemp("pictures")
        for number in range(12):
            Image.fromarray(paint(number)).save(video / f"{number:03}.png")
    return Sample(str(folder / "events.npy"), str(video), "What is in the scene?")


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Any]:
    """Makes a model of any family with random weights of wide spread: 16 patches of 14 pixels to a frame, fp32."""

    from engines.decoder.llama import LlamaDecoder
    from engines.families.eventgpt import EventGptConfig, EventGptModel
    from engines.families.llava_model import LlavaConfig
    from engines.families.networks import build_network, engine_family, finish
    from engines.loading.shapes import random_vocabulary
    from engines.loading.weights import Checkpoint, model_facts
    from engines.stages.pixel_values import ClipTransform

    def make(
        family: str, *, seed: int = 0, limit: int = 512, dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> Any:
        vision = small_vision(num_hidden_layers=3)
        text = small_text(
            32_003, hidden_size=48, intermediate_size=96, num_key_value_heads=4, max_position_embeddings=limit
        )
        if family == "eventgpt":
            config: Any = EventGptConfig(vision, text)
        else:
            pooling = "average" if family == "llava_next_video" else None
            keeps_cls = family == "video_llava"
            config = LlavaConfig(vision, text, family=family, slot_id=32_001, keeps_cls=keeps_cls, pooling=pooling)
        torch.manual_seed(seed)
        network = EventGptModel(config) if family == "eventgpt" else build_network(config)
        network.eval().requires_grad_(False)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        place = torch.device(device)
        network = network.to(place, dtype)
        finish(network, place)
        facts = model_facts(Checkpoint(f"tiny-{family}", config, None), network, place, dtype)
        kind = engine_family(family)
        decoder, vocabulary = LlamaDecoder.take_over(network.language_model), random_vocabulary(config)
        transform, template = ClipTransform.square(56), kind.layout(config)
        return kind.model(network, decoder, vocabulary, transform, facts=facts, template=template)

    return make
