"""Bundled checkpoints, and the records that every family and drafter has."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import VideoLlavaForConditionalGeneration

import assets
from engines.decoder.kv_cache import DynamicKv
from engines.families.llava import VideoLlavaFamily
from engines.families.networks import ENGINE_FAMILIES, engine_family
from engines.loading.shapes import random_config
from engines.loading.weights import load_model
from engines.measuring.timing import NullClock
from engines.modes.measured_run import STRATEGIES
from engines.modes.strategies import DRAFTER_MAKERS
from engines.stages.model import VisionLanguageModel, splice
from engines.tokens.prompts import SLOT, prompt_ids
from engines.training.trainees import TRAINEE_MAKERS
from evprof.core.records import TARGET
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS, TAUGHT_KINDS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES

ASSETS = Path(assets.__file__).parent
MODELS = ASSETS / "models"
EVENTGPT, VIDEO = MODELS / "evprof-tiny-eventgpt", MODELS / "evprof-tiny-video-llava"
SAMPLES = sorted(path.parent for path in (ASSETS / "samples").glob("*/sample.json"))

CLIP_TOP = (
    "embeddings.class_embedding",
    "embeddings.patch_embedding.weight",
    "embeddings.position_embedding.weight",
    "pre_layrnorm.weight",
    "pre_layrnorm.bias",
    "post_layernorm.weight",
    "post_layernorm.bias",
)
CLIP_LAYER = tuple(
    f"{part}.{kind}"
    for part in (
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.out_proj",
        "layer_norm1",
        "layer_norm2",
        "mlp.fc1",
        "mlp.fc2",
    )
    for kind in ("weight", "bias")
)
LLAMA_LAYER = (
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
)


def clip_names(prefix: str, layers: int) -> set[str]:
    inner = {f"{prefix}encoder.layers.{layer}.{name}" for layer in range(layers) for name in CLIP_LAYER}
    return inner | {prefix + name for name in CLIP_TOP}


def llama_names(prefix: str, layers: int) -> set[str]:
    inner = {f"{prefix}layers.{layer}.{name}" for layer in range(layers) for name in LLAMA_LAYER}
    return inner | {f"{prefix}embed_tokens.weight", f"{prefix}norm.weight"}


def stored(folder: Path) -> dict[str, str]:
    """Tensor name -> dtype in the file."""
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return {name: str(file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118 - not a dict


def video_llava() -> VisionLanguageModel:
    choice = ModelChoice(str(VIDEO), "cpu", "float32")
    return load_model(choice, TARGET, lambda done, total: None, Event())


@pytest.mark.parametrize("folder", [EVENTGPT, VIDEO], ids=lambda folder: folder.name)
def test_weights_are_bf16_and_at_most_ten_megabytes(folder: Path) -> None:
    assert (folder / "model.safetensors").stat().st_size <= 10_000_000
    assert set(stored(folder).values()) == {"BF16"}


def test_eventgpt_has_the_published_tensor_names() -> None:
    projector = {f"model.visual_projector.{index}.{kind}" for index in (0, 2) for kind in ("weight", "bias")}
    adaptor = {"model.feature_adaptor.weight", "model.feature_adaptor.bias"}
    tower = clip_names("model.visual_tower.visual_tower.vision_model.", 4)
    assert set(stored(EVENTGPT)) == projector | adaptor | tower | llama_names("model.", 4) | {"lm_head.weight"}


def test_video_llava_has_the_published_tensor_names() -> None:
    towers = clip_names("video_tower.vision_model.", 4) | clip_names("image_tower.vision_model.", 4)
    projector = {f"multi_modal_projector.linear_{index}.{kind}" for index in (1, 2) for kind in ("weight", "bias")}
    llama = llama_names("language_model.model.", 10) | {"language_model.lm_head.weight"}
    assert set(stored(VIDEO)) == towers | projector | llama


def test_the_pair_shares_one_vocabulary() -> None:
    slow = sentencepiece.SentencePieceProcessor(model_file=str(EVENTGPT / "tokenizer.model"))
    fast = Tokenizer.from_file(str(VIDEO / "tokenizer.json"))
    shared = slow.get_piece_size()
    assert shared <= 1000
    assert [fast.id_to_token(index) for index in range(shared)] == [slow.id_to_piece(index) for index in range(shared)]
    assert [fast.id_to_token(shared + index) for index in range(3)] == ["<image>", "<video>", "<pad>"]
    assert not (EVENTGPT / "tokenizer.json").exists()
    assert not (VIDEO / "tokenizer.model").exists()


def test_transformers_reads_video_llava_and_gives_the_same_logits() -> None:
    sample = Sample(video_path=str(SAMPLES[0] / "video.mp4"))
    model = video_llava()
    settings, clock = GenerationSettings(), NullClock()
    inputs = model.preprocess(model.load(sample, settings, clock), "What is in the scene?", settings, clock)
    loaded: Any = VideoLlavaForConditionalGeneration.from_pretrained(
        VIDEO, dtype=torch.float32, output_loading_info=True
    )
    theirs, report = loaded
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    slots = theirs.config.video_seq_length
    ids = [
        place
        for token in inputs.token_ids
        for place in ([theirs.config.video_token_id] * slots if token == SLOT else [token])
    ]
    with torch.no_grad():
        wanted = theirs.eval()(
            input_ids=torch.tensor([ids]), pixel_values_videos=inputs.pixel_values[None], logits_to_keep=1
        ).logits[0, -1]
        text = torch.tensor([token for token in inputs.token_ids if token != SLOT])
        visual = model.encode_vision(inputs, clock)
        language = model.language_model
        embeddings = splice(language.embed(text), visual, [list(inputs.token_ids).index(SLOT)])
        logits = language(embeddings, DynamicKv(len(language.layers)))[0, -1]
    assert (logits - wanted).abs().max().item() < 1e-4
    assert logits.argmax() == wanted.argmax()


def test_the_video_prompt_is_spelled_as_transformers_would_spell_it() -> None:
    vocabulary = video_llava().vocabulary
    ids = prompt_ids(vocabulary, VideoLlavaFamily.template, "What is in the scene?").ids
    before, after = VideoLlavaFamily.template.chunks("What is in the scene?")
    assert list(ids) == [1, *vocabulary.encode(before), SLOT, *vocabulary.encode(after)]


def test_every_record_is_carried_out() -> None:
    assert set(DRAFTER_MAKERS) == set(DRAFTERS)
    assert set(TRAINEE_MAKERS) == set(TAUGHT_KINDS)
    assert set(STRATEGIES) == {mode.strategy for mode in MODES.values()}
    assert set(ENGINE_FAMILIES) == set(FAMILIES)


def test_every_family_describes_its_own_random_model() -> None:
    for key in FAMILIES:
        config = random_config(f"random:160m-{FAMILIES[key].word}")
        assert config.family == engine_family(key).key == key
