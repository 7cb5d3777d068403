"""Batches and compiled steps against transformers' `generate` with left padding: every LLaVA family, float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import torch
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaForConditionalGeneration,
    LlavaNextVideoForConditionalGeneration,
    VideoLlavaForConditionalGeneration,
)
from transformers import LlavaConfig as TheirLlavaConfig
from transformers import LlavaNextVideoConfig as TheirLlavaNextVideoConfig
from transformers import VideoLlavaConfig as TheirVideoLlavaConfig

from engines.bench.batches import decode_batch, generate_batch
from engines.decoder.decoding import DecodeStep, Limits
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.families.llava_model import LlavaConfig, LlavaModel, VideoLanguageModel
from engines.families.networks import build_network, engine_family, finish
from engines.loading.shapes import random_vocabulary
from engines.loading.weights import Checkpoint, model_facts
from engines.measuring.timing import NullClock
from engines.stages.pixel_values import ClipTransform
from engines.tokens.prompts import SLOT
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches
from tensor_names import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA, vendor_name

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS, TOKENS, PATCH, PAD = 32_064, 64, 4, 0
CPU = torch.device("cpu")
QUESTIONS = ("What is in the scene?", "Where?", "How many are there, and which way do they go?", "What moves here?")
CLASSES = {
    LLAVA: (LlavaForConditionalGeneration, TheirLlavaConfig, 32_000),
    VIDEO_LLAVA: (VideoLlavaForConditionalGeneration, TheirVideoLlavaConfig, 32_001),
    LLAVA_NEXT_VIDEO: (LlavaNextVideoForConditionalGeneration, TheirLlavaNextVideoConfig, 32_000),
}


def config_of(family: str) -> LlavaConfig:
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        image_size=4 * PATCH,
        patch_size=PATCH,
    )
    text = LlamaConfig(
        vocab_size=ROWS,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
    )
    is_next = family == LLAVA_NEXT_VIDEO
    return LlavaConfig(
        vision,
        text,
        family=family,
        slot_id=CLASSES[family][2],
        keeps_cls=family == VIDEO_LLAVA,
        image_token_id=32_001 if is_next else 32_000,
        pooling="average" if is_next else None,
        pool_stride=2,
    )


@dataclass
class Pair:
    """Our model and transformers' on the same weights, asked the same questions about the same frames."""

    model: VideoLanguageModel
    theirs: Any
    sample: Any
    frames: int

    def settings(self, cache: str = "static") -> GenerationSettings:
        switches = Switches(cache=cache)
        return GenerationSettings(max_new_tokens=TOKENS, ignore_eos=True, frames=self.frames, switches=switches)

    @cached_property
    def requests(self) -> list[tuple[Any, str]]:
        return [(self.sample, question) for question in QUESTIONS]

    @cached_property
    def inputs(self) -> list[tuple[list[int], torch.Tensor]]:
        """Ids with a slot's id for each visual token, and pixels, as transformers wants them."""
        made, clock, slot_id = [], NullClock(), self.model.network.config.slot_id
        for sample, question in self.requests:
            host = self.model.load(sample, self.settings(), clock)
            given = self.model.preprocess(host, question, self.settings(), clock)
            share = given.lengths.visual // given.token_ids.count(SLOT)
            ids = [part for token in given.token_ids for part in ([slot_id] * share if token == SLOT else [token])]
            made.append((ids, given.pixel_values))
        return made

    def expected(self, rows: int) -> list[list[int]]:
        """transformers' answers to the first questions, as one left-padded batch."""
        chosen = self.inputs[:rows]
        longest = max(len(ids) for ids, _ in chosen)
        ids = torch.tensor([[PAD] * (longest - len(ids)) + ids for ids, _ in chosen])
        mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids, _ in chosen])
        pixels = [pixels for _, pixels in chosen]
        is_video = self.model.network.config.family != LLAVA
        given = {"pixel_values_videos": torch.stack(pixels)} if is_video else {"pixel_values": torch.cat(pixels)}
        answered = self.theirs.generate(
            ids, attention_mask=mask, **given, max_new_tokens=TOKENS, do_sample=False, pad_token_id=PAD
        )
        return [row.tolist() for row in answered[:, longest:]]


class Pairs:
    """All families around one language model, so that one compilation serves them all."""

    def __init__(self, sample: Any) -> None:
        self.sample = sample
        self._models: dict[str, tuple[VideoLanguageModel, Any]] = {}
        self._expected: dict[tuple[str, int, int], list[list[int]]] = {}
        first = self._drawn(VIDEO_LLAVA)
        self.llama = first.language_model
        self.decoder = LlamaDecoder.take_over(self.llama)
        self._steps = DecodeSteps(self.decoder)

    def pair(self, family: str, frames: int) -> Pair:
        if family not in self._models:
            config, network = config_of(family), self._drawn(family)
            network.language_model = self.llama
            facts = model_facts(Checkpoint("pair", config, None), network, CPU, torch.float32)
            transform = ClipTransform.square(4 * PATCH)
            template = engine_family(family).layout(config)
            ours = VideoLanguageModel(
                network, self.decoder, random_vocabulary(config), transform, facts=facts, template=template
            )
            self._models[family] = ours, self._theirs(config, network)
        return Pair(*self._models[family], self.sample, frames)

    def expected(self, family: str, frames: int, rows: int) -> list[list[int]]:
        key = (family, frames, rows)
        if key not in self._expected:
            self._expected[key] = self.pair(family, frames).expected(rows)
        return self._expected[key]

    def step(self, kind: str, rows: int) -> DecodeStep | None:
        chosen = self._steps.choose(Switches(step=kind), StepPlan((1,), 64, 128, batch=rows))
        assert chosen.sentence is None
        assert chosen.kind == kind
        return chosen.step

    @staticmethod
    def _drawn(family: str) -> LlavaModel:
        torch.manual_seed(1)
        network = build_network(config_of(family)).eval().requires_grad_(False)
        assert isinstance(network, LlavaModel)
        for name, parameter in network.named_parameters():
            if "norm" not in name:
                torch.nn.init.normal_(parameter, std=0.2)
        finish(network, CPU)
        return network

    @staticmethod
    def _theirs(config: LlavaConfig, network: LlavaModel) -> Any:
        model_class, config_class, _ = CLASSES[config.family]
        values: dict[str, Any] = {"vision_config": config.vision, "text_config": config.text}
        if config.family == LLAVA_NEXT_VIDEO:
            values |= {"spatial_pool_mode": config.pooling, "spatial_pool_stride": config.pool_stride}
        theirs = model_class(config_class(**values))
        state = {vendor_name(name): value for name, value in network.named_parameters()}
        theirs.load_state_dict(state)
        return theirs.eval()


@pytest.fixture(scope="module")
def pairs(sample: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        with torch.inference_mode():
            yield Pairs(sample)


@pytest.mark.parametrize(
    ("step", "cache"),
    [("eager", "static"), ("eager", "dynamic"), pytest.param("compiled", "static", marks=pytest.mark.whole)],
)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("frames", [1, 8])
@pytest.mark.parametrize("family", [LLAVA, VIDEO_LLAVA, LLAVA_NEXT_VIDEO])
def test_rows_are_those_of_generate(  # noqa: PLR0917 - a table's columns
    pairs: Pairs, family: str, frames: int, rows: int, step: str, cache: str, never: Any
) -> None:
    pair, own_step = pairs.pair(family, frames), pairs.step(step, rows)
    answer = generate_batch(pair.model, pair.requests[:rows], pair.settings(cache), stop=never, step=own_step)
    expected = pairs.expected(family, frames, rows)
    assert [list(row) for row in answer.ids] == expected
    assert all(len(set(row)) >= 40 for row in expected)
    assert own_step is None or own_step.problem is None
    assert answer.vision_ms is not None
    assert len(set(answer.prompt_lengths)) == rows


def prompts_of(decoder: LlamaDecoder, lengths: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [decoder.embed(torch.randint(0, 257, (length,), generator=generator)) for length in lengths]


def alone(decoder: LlamaDecoder, prompt: torch.Tensor, limits: Limits, stop: Any) -> tuple[int, ...]:
    return decode_batch(decoder, [prompt], limits, stop=stop).ids[0]


@pytest.mark.parametrize("chunk", [0, 5])
def test_rows_end_by_themselves_and_equal_their_answers_alone(make_llama: Any, never: Any, chunk: int) -> None:
    decoder = LlamaDecoder.take_over(make_llama(1))
    prompts = prompts_of(decoder, (9, 14, 3))
    free = [alone(decoder, prompt, Limits(40), never) for prompt in prompts]
    limits = Limits(40, frozenset({free[0][11], free[2][4]}))
    expected = tuple(alone(decoder, prompt, limits, never) for prompt in prompts)
    answer = decode_batch(decoder, prompts, limits, stop=never, prefill_chunk=chunk)
    assert answer.ids == expected
    assert len({len(row) for row in expected}) > 1
    assert answer.tokens == sum(map(len, expected))
    steps = max(map(len, expected)) - 1
    assert answer.cache.logical == 3 * (14 + steps) * bytes_per_position()


def bytes_per_position() -> int:
    return 2 * 2 * 2 * 16 * 4


def test_stop_ends_a_batch(make_llama: Any, stop_after: Any) -> None:
    decoder = LlamaDecoder.take_over(make_llama(4))
    with pytest.raises(Cancelled):
        decode_batch(decoder, prompts_of(decoder, (5, 8)), Limits(50), stop=stop_after(10))
