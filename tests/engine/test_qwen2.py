"""Qwen2 as language model: text is that of transformers, as draft and as target."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlavaConfig as TheirLlavaConfig
from transformers import LlavaForConditionalGeneration, LlavaNextVideoForConditionalGeneration
from transformers import LlavaNextVideoConfig as TheirLlavaNextVideoConfig

import assets
from closeness import assert_close
from engines.checkpoints.config import qwen2_text
from engines.decoder.compiled_step import CompiledStep
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.kv_cache import STATIC, StaticKv
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.engine import LocalEngine
from engines.families.loaded_model import make_language_model
from engines.inspection import inspect_checkpoint, inspect_vocabularies
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.tokens.answer import Answer
from evprof.core.request import RunRequest
from evprof.core.run_info import REENCODED, SAME
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import PARALLEL_PREFILL, SPECULATIVE
from evprof.core.vocabulary.speculation import SpeculationSettings
from qwen2_folders import EventGptPlusParts, qwen2, tokenizer, write_tokenizer
from run_logs import ids_of, runs_of
from small_models import small_vision

pytestmark = pytest.mark.usefixtures("without_gradients")

NEVER = threading.Event()
VOCABULARY = tokenizer()
ROWS = VOCABULARY.get_vocab_size() + 5
SAMPLE = Path(assets.__file__).parent / "samples" / "bus-approaching"
QUESTION = "What is in the scene?"
CLASSES: dict[str, Any] = {
    "llava": (LlavaForConditionalGeneration, TheirLlavaConfig),
    "llava_next_video": (LlavaNextVideoForConditionalGeneration, TheirLlavaNextVideoConfig),
}


def write_llava(folder: Path, family: str, *, is_tied: bool = False, seed: int = 1) -> Any:
    """A checkpoint as transformers saves it, and the model it was saved from."""
    made, described = CLASSES[family]
    vision = small_vision()
    slots = {"image_token_index": ROWS - 1} | ({"video_token_index": ROWS - 2} if family != "llava" else {})
    text = qwen2(ROWS, is_tied=is_tied).config
    config = described(vision_config=vision, text_config=text, tie_word_embeddings=is_tied, **slots)
    torch.manual_seed(seed)
    model = made(config).eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            nn.init.normal_(parameter, std=0.5 if name.endswith("bias") else 0.2)
    model.tie_weights()
    model.save_pretrained(folder)
    write_tokenizer(folder, VOCABULARY)
    return model


@pytest.fixture(scope="module")
def plus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with torch.inference_mode(False):
        parts = EventGptPlusParts.small(ROWS, seed=3)
        return parts.write(tmp_path_factory.mktemp("models") / "plus", VOCABULARY)


@pytest.fixture(scope="module")
def qwen_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "llava-qwen2"
    with torch.inference_mode(False):
        write_llava(folder, "llava")
    return folder


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("family", ["llava", "llava_next_video"])
def test_llava_on_qwen2_computes_as_transformers_does(family: str, is_tied: bool, tmp_path: Path) -> None:
    with torch.inference_mode(False):
        theirs = write_llava(tmp_path, family, is_tied=is_tied)
        model: Any = load_model(
            ModelChoice(str(tmp_path), device="cpu", dtype="float32"), "target", lambda *_: None, NEVER
        )
    found = inspect_checkpoint(str(tmp_path))
    assert (found["missing"], found["surplus"], found["problems"]) == ([], [], [])
    assert found["architecture"]["backbone"].startswith("Qwen2, ")
    assert model.facts.prompt_template.endswith("_chatml")
    ids = torch.randint(0, ROWS - 5, (1, 40), generator=torch.Generator().manual_seed(1))
    cached = CachedModel.over(model.language_model, "target", kind=STATIC, bytes_per_position=1)
    cached.prefill(model.language_model.embed(ids[:, :-9]), NEVER)
    ours = model.language_model.head(model.language_model.trunk(model.language_model.embed(ids[:, -9:]), cached.cache))
    assert_close(ours, theirs(input_ids=ids).logits[:, -9:])
    layout = model.template_of(GenerationSettings())
    assert layout.before == "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
    assert layout.after.format(question="?") == "\n?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def engine() -> Any:
    made = LocalEngine(make_room=lambda *_: None)
    made._tools.draft_worker.submit(lambda: None).result()
    yield made
    made.close()


def run(engine: LocalEngine, mode: str, draft: str, target: str, **asked: Any) -> RunLog:
    settings = GenerationSettings(max_new_tokens=32, frames=2, speculation=SpeculationSettings(**asked))
    mine, theirs = (ModelChoice(name, device="cpu", dtype="float32") for name in (draft, target))
    sample = Sample(str(SAMPLE / "events.npy"), str(SAMPLE / "video.mp4"), QUESTION)
    return runs_of(engine, RunRequest(mode, sample, mine, theirs, settings, keeps_frames=False))[-1]


@pytest.mark.parametrize(
    ("against", "mode"), [("a Llama", SPECULATIVE), ("a Qwen2", SPECULATIVE), ("a Qwen2", PARALLEL_PREFILL)]
)
def test_as_a_draft_it_leaves_the_answer_as_it_is(
    against: str, mode: str, engine: LocalEngine, plus: Path, qwen_target: Path
) -> None:
    target = "evprof-tiny-video-llava" if against == "a Llama" else str(qwen_target)
    alone = run(engine, "target", str(plus), target)
    asked = {"hidden": 4} if mode == PARALLEL_PREFILL else {}
    drafted = run(engine, mode, str(plus), target, **asked)
    assert [(one.info.status, one.info.error) for one in (alone, drafted)] == [("finished", None)] * 2
    assert ids_of(drafted) == ids_of(alone)
    speculation: Any = drafted.info.speculation
    assert speculation.alignment == (REENCODED if against == "a Llama" else SAME)
    assert drafted.info.models["draft"].family == "eventgpt_plus"
    assert len(drafted.rounds) > 0


def test_ids_of_two_qwen2_vocabularies_pass_as_they_are(plus: Path, qwen_target: Path) -> None:
    found = inspect_vocabularies(str(plus), str(qwen_target))
    assert (found["alignment"], found["same_number"], found["only_draft_count"]) == (SAME, True, 0)
    found = inspect_vocabularies(str(plus), "evprof-tiny-video-llava")
    assert found["alignment"] == REENCODED


CPU, NO_STOP, TOKENS, STEP_ROWS = torch.device("cpu"), threading.Event(), 48, 257
PIECES = [f"<{index}>" for index in range(STEP_ROWS)]


def both(*, is_tied: bool = False) -> tuple[Any, LlamaDecoder]:
    """transformers' model, and ours with its weights."""
    theirs = qwen2(STEP_ROWS, layers=2, seed=4, is_tied=is_tied)
    made = make_language_model(qwen2_text(theirs.config.to_dict(), Path("config.json")))
    found = made.load_state_dict(theirs.state_dict())
    assert (found.missing_keys, found.unexpected_keys) == ([], [])
    made.eval().requires_grad_(False)
    return theirs, LlamaDecoder.take_over(made)


def answered(decoder: LlamaDecoder, prompt: torch.Tensor, sink: Any, step: Any = None) -> list[int]:
    cache = StaticKv(decoder.config, 128, device=CPU, dtype=torch.float32)
    one = CachedModel(decoder, "target", CPU, decoder.rows, cache=cache, own_step=step)
    answer = Answer(sink, 1, "target", PIECES)
    first = greedy(one.prefill(decoder.embed(prompt), NO_STOP))
    answer.add(int(first))
    decode(one, first, answer, Limits(TOKENS), sampler=greedy, clock=NullClock(), stop=NO_STOP)
    return answer.ids


@pytest.mark.parametrize(
    ("way", "is_tied"),
    [("eager", False), ("eager", True), pytest.param("compiled", True, marks=pytest.mark.whole)],
)
def test_text_is_that_of_generate(way: str, is_tied: bool, sink: Any) -> None:
    theirs, decoder = both(is_tied=is_tied)
    prompt = torch.randint(0, STEP_ROWS, (1, 23), generator=torch.Generator().manual_seed(2))
    expected = theirs.generate(prompt, max_new_tokens=TOKENS, do_sample=False)[0, 23:].tolist()
    step = CompiledStep(decoder) if way == "compiled" else None
    if step is not None:
        step.compile_for((1,))
        assert step.problem is None
    assert answered(decoder, prompt, sink, step) == expected
    assert len(set(expected)) >= 5


def test_the_last_difference_is_rounding() -> None:
    """In float32 our fused products add up in another order than transformers' three; nothing else differs."""
    theirs, decoder = both()
    ids = torch.randint(0, STEP_ROWS, (1, 60), generator=torch.Generator().manual_seed(3))
    cache = StaticKv(decoder.config, 64, device=CPU, dtype=torch.float32)
    ours, wanted = decoder.head(decoder.trunk(decoder.embed(ids), cache)), theirs(ids).logits
    assert float((ours - wanted).abs().max()) <= 2e-5 * float(wanted.abs().max())
    assert all(layer.out.bias is None and layer.qkv.bias is not None for layer in decoder.ordered)
