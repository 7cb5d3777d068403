"""Checkpoints are read completely and exactly, or refused in a sentence."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import CLIPVisionConfig, LlamaConfig, VideoLlavaForConditionalGeneration

import assets
from apart import run_apart
from checkpoint_folders import PIECES, TOKENIZER_JSON, TOKENIZER_MODEL, WEIGHTS, write_eventgpt, write_video_llava
from closeness import assert_close
from engines import bundled_folder
from engines.checkpoints.naming import kept_layers, split_layers
from engines.checkpoints.shards import folder_content, weight_files
from engines.decoder.kv_cache import DynamicKv
from engines.families.eventgpt import EventGptConfig, EventGptModel, EventLanguageModel
from engines.families.llava import VideoLlavaFamily
from engines.families.llava_model import LlavaConfig, VideoLanguageModel
from engines.families.networks import ENGINE_FAMILIES, build_network, engine_family, read_config
from engines.inspection import inspect_checkpoint
from engines.loading.shapes import random_config
from engines.loading.weights import find_checkpoint, load_model
from engines.measuring.timing import NullClock
from engines.modes.measured_run import STRATEGIES
from engines.modes.strategies import DRAFTER_MAKERS
from engines.stages.model import VisionLanguageModel, splice
from engines.tokens.prompts import SLOT, prompt_ids
from engines.training.trainees import TRAINEE_MAKERS
from evprof.core.errors import USAGE, UserError
from evprof.core.records import TARGET
from evprof.core.sample import Sample
from evprof.core.vocabulary.drafters import DRAFTERS, TAUGHT_KINDS
from evprof.core.vocabulary.families import FAMILIES
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import MODES
from small_models import small_text, small_vision
from tensor_names import LLAVA, VIDEO_LLAVA

NEVER = threading.Event()


def nothing(done: int, total: int) -> None:
    """Takes progress and drops it."""


def configs(rows: int) -> tuple[CLIPVisionConfig, LlamaConfig]:
    vision = small_vision(hidden_size=16, intermediate_size=32, num_attention_heads=2, image_size=28)
    text = small_text(rows, hidden_size=24, intermediate_size=32, num_attention_heads=2)
    return vision, text


@pytest.fixture
def eventgpt(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    folder = tmp_path / "tiny-eventgpt"
    write_eventgpt(folder, EventGptModel(EventGptConfig(*configs(PIECES))), TOKENIZER_MODEL)
    return folder


def write_llava(folder: Path, family: str) -> Path:
    torch.manual_seed(0)
    vision, text = configs(PIECES + 3)
    is_video = family == VIDEO_LLAVA
    config = LlavaConfig(
        vision,
        text,
        family=family,
        slot_id=PIECES + 1 if is_video else PIECES,
        keeps_cls=is_video,
        image_token_id=PIECES,
    )
    write_video_llava(folder, build_network(config), TOKENIZER_JSON)
    return folder


def names(folder: Path) -> set[str]:
    with safe_open(folder / WEIGHTS, "pt") as file:
        return set(file.keys())


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


def eventgpt_names(*, layers: int, tower_layers: int) -> set[str]:
    """Names of an EventGPT checkpoint, from the published key tables."""
    connector = {f"model.visual_projector.{index}.{kind}" for index in (0, 2) for kind in ("weight", "bias")}
    connector |= {"model.feature_adaptor.weight", "model.feature_adaptor.bias", "lm_head.weight"}
    tower = clip_names("model.visual_tower.visual_tower.vision_model.", tower_layers)
    return connector | tower | llama_names("model.", layers)


def llava_names(towers: tuple[str, ...], *, layers: int, tower_layers: int) -> set[str]:
    """Names of a LLaVA checkpoint, from the published key tables."""
    connector = {f"multi_modal_projector.linear_{index}.{kind}" for index in (1, 2) for kind in ("weight", "bias")}
    vision = {name for tower in towers for name in clip_names(f"{tower}.vision_model.", tower_layers)}
    return connector | vision | llama_names("language_model.model.", layers) | {"language_model.lm_head.weight"}


def test_eventgpt_files_carry_the_published_names(eventgpt: Path) -> None:
    assert names(eventgpt) == eventgpt_names(layers=2, tower_layers=2)
    config = json.loads((eventgpt / "config.json").read_text())
    assert config["model_type"] == "EventChat_llama"
    assert config["event_feature_adaptor"] is True
    assert (eventgpt / "tokenizer.model").is_file()
    assert not (eventgpt / "tokenizer.json").exists()


@pytest.mark.parametrize(
    ("family", "towers"), [(VIDEO_LLAVA, ("image_tower", "video_tower")), (LLAVA, ("vision_tower",))]
)
def test_llava_files_carry_the_published_names(family: str, towers: tuple[str, ...], tmp_path: Path) -> None:
    folder = write_llava(tmp_path / "m", family)
    assert names(folder) == llava_names(towers, layers=2, tower_layers=2)
    assert json.loads((folder / "config.json").read_text())["model_type"] == family


def test_eventgpt_comes_back_as_written(eventgpt: Path) -> None:
    told: list[tuple[int, int]] = []
    model = load_model(ModelChoice(str(eventgpt)), "draft", lambda *pair: told.append(pair), NEVER)
    assert isinstance(model, EventLanguageModel)
    stored = load_file(eventgpt / WEIGHTS)
    state = model.network.state_dict()
    assert torch.equal(state["visual_projector.2.bias"], stored["model.visual_projector.2.bias"].float())
    tower = "model.visual_tower.visual_tower.vision_model.encoder.layers.1.mlp.fc1.weight"
    assert torch.equal(state["visual_tower.encoder.layers.1.mlp.fc1.weight"], stored[tower].float())
    assert len(stored) == len(told) - 1
    size = (eventgpt / WEIGHTS).stat().st_size
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] < size
    assert (model.facts.name, model.facts.family, model.facts.dtype) == ("tiny-eventgpt", "eventgpt", "float32")
    assert model.facts.parameters * 4 == model.facts.weight_bytes
    assert (model.facts.layers, model.facts.kv_heads, model.facts.head_dim) == (2, 2, 12)
    assert model.facts.context_limit == 512
    assert model.facts.prompt_template == "eventgpt_v1"


def logits(model: VisionLanguageModel, ids: torch.Tensor) -> torch.Tensor:
    decoder = model.language_model
    with torch.inference_mode():
        return decoder(decoder.embed(ids), DynamicKv(len(decoder.layers)), keep=ids.shape[1])


def test_transformers_itself_reads_what_we_write(tmp_path: Path) -> None:
    folder = write_llava(tmp_path / "m", VIDEO_LLAVA)
    loaded: Any = VideoLlavaForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    theirs, report = loaded
    assert not any(report.values()), report
    ours = load_model(ModelChoice(str(folder)), "target", nothing, NEVER)
    assert isinstance(ours, VideoLanguageModel)
    pixels, ids = torch.randn(8, 3, 28, 28), torch.arange(3, 60)[None]
    with torch.inference_mode():
        features = theirs.model.get_video_features(pixels[None]).pooler_output
        assert_close(ours.network.encode_frames(pixels), features.reshape(8, 5, 24))
        assert_close(logits(ours, ids), theirs(input_ids=ids).logits)


class Hub:
    """The Hugging Face hub and its cache: files are in the cache once they were asked for."""

    def __init__(self, files: Path, cache: Path) -> None:
        self.files, self.cache = files, cache
        self.asked: list[list[str]] = []

    def __call__(self, name: str, *, allow_patterns: Any, local_files_only: bool = False) -> str:
        from huggingface_hub.errors import LocalEntryNotFoundError

        if local_files_only:
            if not self.cache.exists():
                raise LocalEntryNotFoundError("not cached")
            return str(self.cache)
        self.asked.append(allow_patterns)
        for path in [path for pattern in allow_patterns for path in self.files.rglob(pattern)]:
            place = self.cache / path.relative_to(self.files)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
        return str(self.cache)


@pytest.mark.parametrize("form", ["safetensors", "shards", "bin"])
def test_weights_are_fetched_for_a_run_and_not_to_look_at_a_model(
    form: str, eventgpt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    if form == "shards":
        split(eventgpt)
    elif form == "bin":
        torch.save(load_file(eventgpt / WEIGHTS), eventgpt / "pytorch_model.bin")
        (eventgpt / WEIGHTS).unlink()
    hub = Hub(eventgpt, tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    choice = ModelChoice("someone/some-model", device="cpu")
    looked_at = inspect_checkpoint(choice.name)
    assert (looked_at["bytes"], looked_at["problems"]) == (None, [])
    assert "a run fetches them" in looked_at["assumptions"][-1]
    assert not any("model*" in pattern or "safetensors" in pattern for asked in hub.asked for pattern in asked)
    model = load_model(choice, "draft", nothing, NEVER)
    assert model.facts.name == "someone/some-model"
    count = len(hub.asked)
    whole = inspect_checkpoint(choice.name)
    assert (whole["parameters"], whole["problems"]) == (looked_at["parameters"], [])
    assert whole["bytes"] > 0
    load_model(choice, "draft", nothing, NEVER)
    assert len(hub.asked) == count


Change = Callable[[dict[str, torch.Tensor]], None]


def rewrite(folder: Path, change: Change) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def drop(name: str) -> Change:
    return lambda tensors: tensors.__delitem__(name)


def put(name: str, value: torch.Tensor) -> Change:
    return lambda tensors: tensors.__setitem__(name, value)


ADAPTOR = "model.feature_adaptor.weight"


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (drop("model.layers.1.mlp.up_proj.weight"), ("lacks", "model.layers.1.mlp.up_proj.weight")),
        (put("model.layers.2.mlp.up_proj.weight", torch.zeros(2)), ("no place", "model.layers.2.mlp.up_proj.weight")),
        (put(ADAPTOR, torch.zeros(24, 23)), (ADAPTOR, "[24, 23]", "[24, 24]", WEIGHTS)),
        (put("model.query_embeddings", torch.zeros(4, 24)), ("Q-Former", "model.query_embeddings")),
        (put("model.attention_layers.0.weight", torch.zeros(4)), ("Q-Former", "model.attention_layers.0.weight")),
    ],
)
def test_tensors_that_do_not_fit_are_named(eventgpt: Path, change: Change, parts: tuple[str, ...]) -> None:
    rewrite(eventgpt, change)
    with pytest.raises(UserError) as caught:
        load_model(ModelChoice(str(eventgpt)), "draft", nothing, NEVER)
    assert all(part in caught.value.sentence for part in parts), caught.value.sentence
    assert str(eventgpt) in caught.value.sentence
    found = inspect_checkpoint(str(eventgpt))
    assert caught.value.sentence in found["problems"]
    assert found["missing"] or found["surplus"] or ADAPTOR in found["problems"][0]


@pytest.mark.parametrize("style", ["5.17", "4.52"])
def test_later_names_of_transformers_are_understood(style: str, tmp_path: Path) -> None:
    folder = write_llava(tmp_path / "m", VIDEO_LLAVA)
    stored = load_file(folder / WEIGHTS)

    def later(name: str) -> str:
        name = name.replace("language_model.lm_head", "lm_head").replace("language_model.model.", "language_model.")
        if style == "5.17":
            name = name.replace(".vision_model.", ".")
        return name if name.startswith("lm_head") else f"model.{name}"

    save_file({later(name): tensor for name, tensor in stored.items()}, folder / WEIGHTS)
    model = load_model(ModelChoice(str(folder)), "target", nothing, NEVER)
    assert isinstance(model, VideoLanguageModel)
    weight = model.network.multi_modal_projector.linear_1.weight
    assert torch.equal(weight, stored["multi_modal_projector.linear_1.weight"].float())
    assert inspect_checkpoint(str(folder))["problems"] == []


def split(folder: Path) -> Path:
    """Cuts the weights into two shards with an index."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    listed = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((listed[:20], listed[20:])):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def test_shards_are_read_through_their_index(eventgpt: Path) -> None:
    whole = load_model(ModelChoice(str(eventgpt)), "draft", nothing, NEVER)
    index = split(eventgpt)
    parts = load_model(ModelChoice(str(eventgpt)), "draft", nothing, NEVER)
    assert isinstance(whole, EventLanguageModel)
    assert isinstance(parts, EventLanguageModel)
    both = zip(whole.network.parameters(), parts.network.parameters(), strict=True)
    assert all(torch.equal(first, second) for first, second in both)
    (eventgpt / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match="model-00002-of-00002") as caught:
        find_and_read(eventgpt)
    assert str(index) in caught.value.sentence


def find_and_read(folder: Path) -> Any:
    return load_model(ModelChoice(str(folder)), "draft", nothing, NEVER)


@pytest.mark.parametrize("keep", [0, 4, 100, 20_000])
def test_truncated_weights_are_told_apart(eventgpt: Path, keep: int) -> None:
    path = eventgpt / WEIGHTS
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="download it again") as caught:
        find_and_read(eventgpt)
    assert str(path) in caught.value.sentence


def test_bin_files_are_read_as_weights_only(eventgpt: Path) -> None:
    tensors = load_file(eventgpt / WEIGHTS)
    (eventgpt / WEIGHTS).unlink()
    torch.save(tensors, eventgpt / "pytorch_model.bin")
    model = find_and_read(eventgpt)
    assert torch.equal(
        model.network.state_dict()["feature_adaptor.weight"], tensors["model.feature_adaptor.weight"].float()
    )


@pytest.mark.parametrize(
    ("break_it", "parts"),
    [
        (lambda folder: (folder / "config.json").unlink(), ("config.json", "missing")),
        (lambda folder: (folder / "config.json").write_text("{"), ("config.json", "JSON")),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "gpt2"}'), ("gpt2", "EventChat_llama")),
        (lambda folder: (folder / WEIGHTS).unlink(), ("no weights",)),
        (lambda folder: (folder / "tokenizer.model").unlink(), ("tokenizer.model",)),
        (lambda folder: (folder / "tokenizer.model").write_bytes(b"junk"), ("tokenizer.model",)),
    ],
)
def test_a_broken_folder_is_refused_in_a_sentence(eventgpt: Path, break_it, parts: tuple[str, ...]) -> None:
    break_it(eventgpt)
    with pytest.raises(UserError) as caught:
        find_and_read(eventgpt)
    assert all(part in caught.value.sentence for part in parts), caught.value.sentence


def test_neighbouring_layouts_are_named_with_the_way_out(tmp_path: Path) -> None:
    """LLaVA's own repository, and a PEFT adapter: downloading them again changes nothing."""
    config = {"model_type": "llava", "mm_vision_tower": "openai/clip-vit-large-patch14-336", "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"LLaVA's own repository; use .* llava-hf/llava-1\.5-7b-hf"):
        read_config(tmp_path)
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    (tmp_path / "adapter_model.safetensors").write_bytes(b"-")
    with pytest.raises(UserError, match="is a PEFT adapter and no model; merge it into its base model"):
        weight_files(tmp_path)


def test_a_qformer_in_the_configuration_is_refused(eventgpt: Path) -> None:
    values = json.loads((eventgpt / "config.json").read_text())
    (eventgpt / "config.json").write_text(json.dumps(values | {"use_event_qformer": True}))
    with pytest.raises(UserError, match="Q-Former"):
        read_config(eventgpt)


def test_a_checkpoint_without_tower_takes_the_one_it_names_and_says_so(eventgpt: Path) -> None:
    tensors = load_file(eventgpt / WEIGHTS)
    prefix = "model.visual_tower.visual_tower."
    tower = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    original = {**tower, "text_model.final_layer_norm.weight": torch.zeros(3), "logit_scale": torch.zeros(1)}
    save_file(original, eventgpt / "visual_tower" / WEIGHTS)
    rest = {name: value for name, value in tensors.items() if not name.startswith(prefix)}
    save_file(rest, eventgpt / WEIGHTS)
    model = find_and_read(eventgpt)
    patch = model.network.visual_tower.embeddings.patch_embedding.weight
    assert torch.equal(patch, tower["vision_model.embeddings.patch_embedding.weight"].float())
    assert str(eventgpt / "visual_tower") in model.warnings[-1]
    found = inspect_checkpoint(str(eventgpt))
    assert found["problems"] == []
    assert str(eventgpt / "visual_tower") in found["assumptions"][-1]
    # Part of a tower is no tower: what is missing is then named.
    save_file({**rest, f"{prefix}vision_model.post_layernorm.bias": torch.zeros(16)}, eventgpt / WEIGHTS)
    with pytest.raises(UserError, match="lacks"):
        find_and_read(eventgpt)


def test_a_hub_id_without_network_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    def offline(name: str, **options: Any) -> str:
        from huggingface_hub.errors import LocalEntryNotFoundError

        if options.get("local_files_only"):
            raise LocalEntryNotFoundError("not cached")
        raise OSError("Network is unreachable")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with pytest.raises(UserError, match="the hub cannot be reached") as caught:
        find_checkpoint("someone/some-model")
    assert "someone/some-model" in caught.value.sentence


TINY_TARGET, DRAFT = "evprof-tiny-video-llava", "evprof-tiny-eventgpt"


def load_bundled(name: str) -> Any:
    return load_model(ModelChoice(name, "cpu"), "target", nothing, NEVER)


def test_names_end_in_the_number_of_layers() -> None:
    assert split_layers("some/model:layers=12") == ("some/model", 12)
    for name in ("some/model", "a:layers=", "a:layers=x", "a:layers=3/b", "C:\\models\\llava"):
        assert split_layers(name) == (name, None)


@pytest.mark.parametrize("name", [TINY_TARGET, DRAFT])
def test_kept_layers_have_the_weights_they_had(name: str) -> None:
    whole, few = load_bundled(name), load_bundled(f"{name}:layers=3")
    layers = whole.facts.layers
    assert (few.facts.name, few.facts.layers) == (f"{name}:layers=3", 3)
    for place, index in enumerate(kept_layers(layers, 3)):
        mine, theirs = few.language_model.layers[place], whole.language_model.layers[index]
        assert torch.equal(mine.qkv.weight, theirs.qkv.weight)
        assert torch.equal(mine.down.weight, theirs.down.weight)
    assert torch.equal(few.language_model.embed_tokens.weight, whole.language_model.embed_tokens.weight)
    assert any("3 are kept: 0," in sentence for sentence in few.warnings)


@pytest.mark.parametrize("count", [0, 11])
def test_layers_a_model_does_not_have_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"{TINY_TARGET} has 10 layers; ask for 1 to 10") as caught:
        find_checkpoint(f"{TINY_TARGET}:layers={count}")
    assert caught.value.exit_code == USAGE


COPIED_MODEL = "evprof-tiny-eventgpt"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The bundled draft in a folder of another name."""
    folder = bundled_folder(COPIED_MODEL)
    assert folder is not None
    return Path(shutil.copytree(folder, tmp_path / "mine"))


def test_a_models_identity_is_its_content_and_not_its_folder(copied: Path) -> None:
    before = folder_content(copied)
    loaded_content = [load_bundled(name).facts.content for name in (COPIED_MODEL, str(copied))]
    assert loaded_content == [before, before]
    (weights,) = copied.glob("*.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert folder_content(copied) != before


def test_an_engine_starts_without_transformers_and_compilers() -> None:
    late = ("transformers", "torch._dynamo", "sympy", "triton", "torch.distributed.tensor")
    printed = run_apart(f"import sys, engines.engine\nprint([name for name in {late} if name in sys.modules])")
    assert printed == "[]"


def test_the_first_load_counts_the_import_of_transformers() -> None:
    printed = run_apart(
        "import sys\n"
        "from engines.loading.warm_models import WarmModels\n"
        "from engines.loading.weights import load_model\n"
        "from evprof.core.vocabulary.generation import ModelChoice\n"
        "from threading import Event\n"
        "warm = WarmModels(load_model, 10.0)\n"
        "warm.import_libraries()\n"
        "print('transformers.models.clip.modeling_clip' in sys.modules)\n"
        "model = warm.get(ModelChoice('evprof-tiny-eventgpt'), 'draft', lambda done, total: None, Event())\n"
        "print(model.setup.import_ms > 10.0)"
    )
    assert printed.splitlines() == ["True", "True"]


ASSETS = Path(assets.__file__).parent
MODELS = ASSETS / "models"
EVENTGPT, VIDEO = MODELS / "evprof-tiny-eventgpt", MODELS / "evprof-tiny-video-llava"
SAMPLES = sorted(path.parent for path in (ASSETS / "samples").glob("*/sample.json"))


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


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        (EVENTGPT, eventgpt_names(layers=4, tower_layers=4)),
        (VIDEO, llava_names(("image_tower", "video_tower"), layers=10, tower_layers=4)),
    ],
    ids=["eventgpt", "video-llava"],
)
def test_bundled_models_have_the_published_tensor_names(folder: Path, expected: set[str]) -> None:
    assert names(folder) == expected


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
