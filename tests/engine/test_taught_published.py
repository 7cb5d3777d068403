"""Heads of ours taught in EAGLE-1's and EAGLE-3's layout: stored as others publish theirs, and read back as such."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from engines.adapters.folder import save_adapter
from engines.adapters.published import load_head
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters.eagle_drafter import EagleDrafter
from engines.training.eagle_trainee import EagleTrainee
from evprof.core.errors import UserError
from evprof.loaders.adapters import AdapterInfo, read_adapter
from published_heads import Reference, Written

ROWS = 24


@pytest.fixture(scope="session")
def kit(played_rounds: ModuleType) -> ModuleType:
    return played_rounds


@pytest.fixture(scope="module")
def target(make_llama: Any) -> LlamaForCausalLM:
    made: LlamaForCausalLM = make_llama(5, vocabulary=ROWS, layers=4)
    return made


@pytest.fixture(scope="module")
def decoder(target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(target)


LAYERS = {"eagle": (), "eagle3": (1, 2, 4)}
"""Layout -> the layers whose inputs are read; 4 is what leaves the last."""


@pytest.fixture(params=LAYERS)
def taught(decoder: LlamaDecoder, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    trainee = EagleTrainee(decoder, window=3, layout=request.param, layers=LAYERS[request.param])
    for number, weight in enumerate(trainee.head.parameters()):
        weight.data = weight + 0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
    info = AdapterInfo(
        tmp_path / "head", "eagle", "head", "a target", None, 64, None, ROWS, trainee.config(), training={"steps": 1}
    )
    return save_adapter(info, trainee.tensors(), "# A head\n").folder


@pytest.mark.usefixtures("without_gradients")
def test_the_folder_is_a_published_head_to_others(
    taught: Path, decoder: LlamaDecoder, target: LlamaForCausalLM, kit: ModuleType, sink: Any
) -> None:
    """config.json and model.safetensors alone make the drafts that the reference makes; beside them lies the rest."""
    names = {path.name for path in taught.iterdir()}
    assert names == {"adapter.json", "config.json", "model.safetensors", "MODEL_CARD.md"}
    stored = load_file(taught / "model.safetensors")
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in stored.items()}
    config = json.loads((taught / "config.json").read_text())
    layout = "eagle3" if "draft_vocab_size" in config else "eagle"
    reference = Reference(Written(taught, config, tensors, LAYERS[layout]), target)
    (taught / "adapter.json").rename(taught.parent / "adapter.json")
    bare = read_adapter(str(taught))
    assert (bare.kind, bare.config["layout"], bare.hidden_size, bare.vocabulary) == ("eagle", layout, 64, ROWS)
    head = load_head(bare, decoder)
    assert head.window is None
    ids = kit.prompt_of(2, 8, ROWS)
    expected, _ = reference.chain([*ids[0].tolist(), 3], 4)
    one = kit.cached(decoder)
    drafter = EagleDrafter("head", head, one, frozenset())
    one.keeps_features, one.reads = True, head.reads
    one.prefill(decoder.embed(ids), kit.NEVER)
    drafter.start(kit.PromptContext(ids[0].tolist(), one.prompt_embeddings, one.features))
    assert drafter.propose([3], 4, lambda: False).ids.tolist() == expected


@pytest.mark.usefixtures("without_gradients")
def test_ours_remembers_how_far_it_looks_back(taught: Path, decoder: LlamaDecoder, kit: ModuleType, sink: Any) -> None:
    info = read_adapter(str(taught))
    head = load_head(info, decoder)
    assert (head.window, info.config["trained_steps"], info.training) == (3, 3, {"steps": 1})
    prompt = kit.prompt_of(1, 9, ROWS)

    def make(one: Any) -> EagleDrafter:
        return EagleDrafter("head", head, one, frozenset())

    expected = kit.plain(decoder, prompt, Limits(20), sink)
    done = kit.play(
        kit.cached(decoder), lambda one: EagleDrafter("head", head, one, frozenset()), prompt, Limits(20), sink
    )
    assert done.ids == expected


def test_a_folder_whose_two_descriptions_differ_is_refused(taught: Path) -> None:
    (taught / "config.json").write_text(json.dumps({"medusa_num_heads": 3}))
    with pytest.raises(UserError, match="describes a head of Medusa"):
        read_adapter(str(taught))
    (taught / "config.json").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        read_adapter(str(taught))
