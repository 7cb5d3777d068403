"""EventGPT-Plus in its published layout against transformers' own Qwen2 and CLIP on the same weights, in float32."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config

from closeness import assert_close
from engines.decoder.decoding import CachedModel, decode
from engines.decoder.kv_cache import DYNAMIC, STATIC
from engines.decoder.sampling import greedy
from engines.families.networks import build_empty, parameter_shapes
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import random_config
from engines.loading.weights import load_model
from engines.measuring.stage_memory import StageMemory
from engines.measuring.timing import StageClock
from engines.stages.frames import draw_event_bins
from engines.stages.model import HostInputs
from engines.stages.pipeline import ModelPass
from engines.tokens.answer import Answer
from engines.tokens.prompts import SLOT
from evprof.core.errors import UserError
from evprof.core.events import EventArray
from evprof.core.sample import Sample
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.events.npz import open_recording
from evprof.loaders.pictures.render import draw_bin
from qwen2_folders import EventGptPlusParts, shapes_of, tokenizer
from tensor_names import tensor_names

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU, NEVER, TOKENS = torch.device("cpu"), threading.Event(), 64
VOCABULARY = tokenizer()
ROWS = VOCABULARY.get_vocab_size() + 5
QUESTION = "What is in the scene?"
SYSTEM = (
    "You are a helpful assistant. You are looking at a red-blue visualization of the Event Stream. Please answer the "
    "question based solely on the visual input. Do not make assumptions or guess beyond what is observable."
)


@pytest.fixture(scope="module")
def parts() -> EventGptPlusParts:
    with torch.inference_mode(False):
        return EventGptPlusParts.small(ROWS)


@pytest.fixture
def folder(parts: EventGptPlusParts, tmp_path: Path) -> Path:
    return parts.write(tmp_path / "EventGPT-Plus-small", VOCABULARY)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """200 ms of events, so that there are 8 bins."""
    drawn = np.random.default_rng(5)
    count = 20_000
    times = np.sort(drawn.integers(0, 200_000, count))
    path = tmp_path_factory.mktemp("events") / "scene.npy"
    events = {"x": drawn.integers(0, 64, count), "y": drawn.integers(0, 48, count), "t": times}
    np.save(path, np.array({**events, "p": drawn.integers(0, 2, count)}, dtype=object), allow_pickle=True)
    return Sample(str(path), None, QUESTION)


def loaded(folder: Path, **choice: Any) -> Any:
    return load_model(ModelChoice(str(folder), **{"device": "cpu", **choice}), "draft", lambda *_: None, NEVER)


def answered(model: Any, sample: Sample, sink: Any, settings: GenerationSettings) -> tuple[Any, Any, list[int]]:
    """The five stages by hand: what went in, the visual embeddings, the ids that came out."""
    clock = StageClock(sink, 1)
    one = ModelPass(model, "draft", settings, clock=clock, memory=StageMemory([CPU]), stop=NEVER)
    answer = Answer(sink, 1, "draft", model.vocabulary.pieces)
    visual = one.up_to_vision(sample, lambda *_: None)
    first = one.prefill(visual, answer, greedy)
    assert first is not None
    decode(one.cached, first, answer, one.limits(), sampler=greedy, clock=clock, stop=NEVER)
    return one.inputs, visual, answer.ids


def embedded(parts: EventGptPlusParts, ids: tuple[int, ...], visual: torch.Tensor) -> torch.Tensor:
    """The prompt as the published program gives it to Qwen2: [1, S, hidden]."""
    place = ids.index(SLOT)
    table = parts.language.get_input_embeddings()
    before, after = (table(torch.tensor(part)) for part in (ids[:place], ids[place + 1 :]))
    return torch.cat([before, visual, after])[None]


def refused(folder: Path) -> str:
    """The sentence with which a folder is refused."""
    with pytest.raises(UserError) as caught:
        loaded(folder)
    return caught.value.sentence


def change_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_the_true_shape_has_the_names_that_follow_from_the_published_program() -> None:
    config = random_config("random:1.5b-eventgpt-plus")
    language = Qwen2Config(
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    expected = dict(shapes_of(language, (24, 1024, 4096, 14, 576)))
    assert dict(zip(tensor_names(config), parameter_shapes(build_empty(config)).values(), strict=True)) == expected
    assert sum(torch.Size(shape).numel() for shape in expected.values()) == 1_851_156_992
    assert config.text.rope_parameters["rope_theta"] == 1e6
    assert (config.text.rms_norm_eps, config.text.num_key_value_heads) == (1e-6, 2)


@pytest.mark.parametrize("model_type", ["eventgpt_plus_qwen", "EventChat_Qwen"])
def test_every_tensor_is_accounted_for(model_type: str, folder: Path, parts: EventGptPlusParts) -> None:
    change_config(folder, model_type=model_type)
    stored = load_file(folder / "model.safetensors")
    expected = dict(shapes_of(parts.language.config, (2, 32, 64, 14, 16)))
    assert {name: tuple(value.shape) for name, value in stored.items()} == expected
    found = inspect_checkpoint(str(folder), ModelChoice("", device="cpu", dtype="float32"))
    assert (found["family"], found["missing"], found["surplus"], found["problems"]) == ("eventgpt_plus", [], [], [])
    assert found["visual_tokens_per_frame"] == 4
    assert found["architecture"]["backbone"].startswith("Qwen2, ")
    assert found["architecture"]["projector"].endswith("linear 48→48, average of 2 x 2 patches")
    model = loaded(folder, dtype="float32")
    count = sum(value.numel() for value in stored.values())
    assert (model.facts.parameters, model.facts.weight_bytes) == (count, 4 * count)
    head, table = model.language_model.lm_head.weight, model.language_model.embed_tokens.weight
    assert head.data_ptr() == table.data_ptr()


@pytest.mark.parametrize(
    ("cache", "attention", "is_tied"),
    [(STATIC, "sdpa", True), (DYNAMIC, "sdpa", True), (STATIC, "eager", True), (STATIC, "sdpa", False)],
)
def test_logits_and_text_are_those_of_transformers(  # noqa: PLR0917 - the columns of the table above
    cache: str, attention: str, is_tied: bool, recording: Sample, tmp_path: Path, sink: Any
) -> None:
    with torch.inference_mode(False):
        parts = EventGptPlusParts.small(ROWS, is_tied=is_tied)
        model = loaded(parts.write(tmp_path / "m", VOCABULARY), dtype="float32")
    switches = Switches(cache=cache, attention=attention)
    settings = GenerationSettings(max_new_tokens=TOKENS, ignore_eos=True, switches=switches)
    model.language_model.attention = attention
    inputs, visual, answer = answered(model, recording, sink, settings)
    assert inputs.pixel_values.shape == (8, 3, 56, 56)
    wanted = parts.visual(inputs.pixel_values)
    assert_close(visual, wanted)
    prompt = embedded(parts, inputs.token_ids, wanted)
    assert torch.equal(model.embed_prompt(inputs, wanted), prompt)
    cached = CachedModel.over(model.language_model, "draft", kind=cache, bytes_per_position=1)
    cached.prefill(prompt[:, :-9], NEVER)
    ours = model.language_model.head(model.language_model.trunk(prompt[:, -9:], cached.cache))
    theirs = parts.language(inputs_embeds=prompt).logits[:, -9:]
    assert_close(ours, theirs)
    expected = parts.language.generate(inputs_embeds=prompt, max_new_tokens=TOKENS, do_sample=False)
    assert answer == expected[0].tolist()
    assert len(set(answer)) >= 15


def test_the_prompt_is_that_of_the_published_program(folder: Path, recording: Sample, sink: Any) -> None:
    model = loaded(folder)
    inputs, _, _ = answered(model, recording, sink, GenerationSettings(max_new_tokens=1))
    before = f"<|im_start|>system\n{SYSTEM}\n<|im_end|>\n<|im_start|>user\n"
    after = f"\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n"
    pieces = [VOCABULARY.encode(text, add_special_tokens=False).ids for text in (before, after)]
    assert list(inputs.token_ids) == [*pieces[0], SLOT, *pieces[1]]
    assert inputs.lengths.visual == 8 * 4
    system = before.removesuffix("<|im_start|>user\n")
    assert inputs.lengths.system == len(VOCABULARY.encode(system, add_special_tokens=False).ids)
    assert model.facts.prompt_template == "eventgpt_qwen"
    assert model.vocabulary.bos_id is None
    assert model.vocabulary.eos_ids == {VOCABULARY.token_to_id("<|im_end|>"), VOCABULARY.token_to_id("<|endoftext|>")}


@pytest.mark.parametrize(
    ("span_us", "bins"), [(90_000, 4), (100_000, 4), (100_001, 8), (4_000_001, 16), (16_000_001, 32)]
)
def test_a_recording_has_the_bins_its_length_asks_for(span_us: int, bins: int, folder: Path, tmp_path, sink) -> None:
    times = np.linspace(0, span_us, 400).astype(np.int64)
    places = np.arange(400) % 40
    path = tmp_path / "scene.npy"
    np.save(path, np.array({"x": places, "y": places, "t": times, "p": places % 2}, dtype=object), allow_pickle=True)
    sample, model = Sample(str(path), None, QUESTION), loaded(folder)
    inputs, visual, _ = answered(model, sample, sink, GenerationSettings(max_new_tokens=1))
    assert (len(inputs.pixel_values), len(visual), inputs.lengths.visual) == (bins, 4 * bins, 4 * bins)
    assert FAMILIES["eventgpt_plus"].frames <= bins <= FAMILIES["eventgpt_plus"].most_frames
    fewer, _, _ = answered(model, sample, sink, GenerationSettings(max_new_tokens=1, event_frames=3))
    assert len(fewer.pixel_values) == 3
    assert {picture.shape for picture in fewer.pictures} == {(56, 56, 3)}


def test_a_prompt_is_cut_off_where_its_config_says(folder: Path, recording: Sample, sink: Any) -> None:
    whole, _, _ = answered(loaded(folder), recording, sink, GenerationSettings(max_new_tokens=1))
    change_config(folder, tokenizer_model_max_length=whole.lengths.input - 3)
    cut, _, _ = answered(loaded(folder), recording, sink, GenerationSettings(max_new_tokens=1))
    assert cut.token_ids == whole.token_ids[:-3]
    assert any("the last 3 were cut off" in said for said in cut.warnings)


def remove(folder: Path, name: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")


def test_a_missing_bias_is_named(folder: Path) -> None:
    remove(folder, "model.layers.1.self_attn.k_proj.bias")
    assert "lacks the tensor 'model.layers.1.self_attn.k_proj.bias'" in refused(folder)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"event_tower_type": "SigLIP"}, "the event tower is of type 'SigLIP'"),
        ({"event_projector_type": "Q-Former"}, "the event projector is of type 'Q-Former'"),
        ({"use_sliding_window": True, "sliding_window": 64}, "looks at a sliding window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "looks at a sliding window"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3 key-value heads evenly"),
        ({"tokenizer_model_max_length": "long"}, "tokenizer_model_max_length is 'long'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
    ],
)
def test_other_parts_are_refused_by_name(values: dict[str, Any], sentence: str, folder: Path) -> None:
    change_config(folder, **values)
    assert sentence in refused(folder)


def test_ready_cut_bins_are_shown_as_they_are(tmp_path: Path) -> None:
    """Three parts of 40 ms together, of which one is empty; asked for a number, or a piece, they are cut anew."""
    row = [("p", "u1"), ("t", "<i8"), ("x", "<u2"), ("y", "<u2")]
    parts = np.empty(3, object)
    for place, times in enumerate([(0, 5_000, 9_000), (), (11_000, 40_000)]):
        parts[place] = np.array([(time // 1000 % 2, time, 3 + time // 1000, 7) for time in times], row)
    np.savez(tmp_path / "cut.npz", event_bins=parts)
    with open_recording(tmp_path / "cut.npz") as recording:
        events = recording.read()
    family = FAMILIES["eventgpt_plus"]

    def drawn(count: int | None, shown: EventArray = events) -> HostInputs:
        host = HostInputs("cut.npz", "events", events=shown)
        clock = StageClock(Nowhere(), 1)
        with clock.stage("preprocess", "draft", torch.device("cpu")):
            return draw_event_bins(host, count, family, (64, 16), clock)

    ready = drawn(None)
    assert ready.times_us == ((0, 9_000), (9_000, 9_000), (11_000, 40_000))
    expected = [(0, 3), (3, 3), (3, 5)]
    for picture, (start, stop) in zip(ready.pictures, expected, strict=True):
        assert np.array_equal(picture, draw_bin(events.slice_count(start, stop), width=64, height=16))
    assert [int((picture != 255).any(-1).sum()) for picture in ready.pictures] == [3, 0, 2]
    assert [len(drawn(2).pictures), len(drawn(None, events.slice_count(0, 5)).pictures)] == [2, 4]
    many = replace(events, parts=(*events.parts, *[0] * family.most_frames))
    assert len(drawn(None, many).pictures) == 4


class Nowhere:
    def append(self, record: Any) -> None:
        pass

    def post(self, message: Any) -> None:
        pass
