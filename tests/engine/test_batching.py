"""Batches and compiled steps against transformers' `generate` with left padding: every LLaVA family, float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
import torch

from engines.bench.batches import decode_batch, generate_batch
from engines.decoder.decoding import DecodeStep, Limits
from engines.decoder.llama import LlamaDecoder
from engines.decoder.step_choice import DecodeSteps, StepPlan
from engines.families.llava_model import VideoLanguageModel
from engines.measuring.timing import NullClock
from evprof.core.errors import Cancelled
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.switches import Switches
from small_models import (
    llava_config,
    random_network,
    transformers_ids,
    transformers_model,
    video_model,
)
from tensor_names import LLAVA, LLAVA_NEXT_VIDEO, VIDEO_LLAVA

pytestmark = pytest.mark.usefixtures("without_gradients")

TOKENS, PAD = 64, 0
QUESTIONS = ("What is in the scene?", "Where?", "How many are there, and which way do they go?", "What moves here?")


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
            made.append((transformers_ids(given, slot_id), given.pixel_values))
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
        self.llama = random_network(llava_config(VIDEO_LLAVA, layers=2)).language_model
        self.decoder = LlamaDecoder.take_over(self.llama)
        self._steps = DecodeSteps(self.decoder)

    def pair(self, family: str, frames: int) -> Pair:
        if family not in self._models:
            network = random_network(llava_config(family, layers=2))
            network.language_model = self.llama
            self._models[family] = video_model(network, self.decoder), transformers_model(network.config, network)
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
