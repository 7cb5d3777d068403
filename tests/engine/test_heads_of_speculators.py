"""Heads as the speculators package saves them, held against the package itself.

It asks for an older transformers than ours, so it is installed alone (pyproject.toml, tool.evprof.alone).
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from engines.adapters.following import HeadPass
from engines.adapters.published import load_head
from engines.decoder.llama import LlamaDecoder
from evprof.loaders.adapters import read_adapter
from published_heads import eagle3, save

ROWS, STEPS = 24, 3

FLAGS: list[dict[str, Any]] = [
    {},
    {"norm_before_residual": True, "choices": 11},
    {"fc_norm": True, "norm_output": True},
    {"norm_before_fc": True, "own_embeddings": True},
]


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("flags", FLAGS)
def test_states_and_choices_are_the_packages(flags: dict[str, Any], make_llama: Any, tmp_path: Path) -> None:
    package = importlib.import_module("speculators.models.eagle3")
    target: LlamaForCausalLM = make_llama(5, vocabulary=ROWS, layers=4)
    theirs_embed = target.model.embed_tokens.weight.detach().clone()
    decoder = LlamaDecoder.take_over(target)
    written = save(eagle3(tmp_path / "head", target.config, layout="speculators-eagle3", **flags))
    config = package.Eagle3SpeculatorConfig(**written.config)
    config.transformer_layer_config._attn_implementation = "eager"
    theirs = package.Eagle3DraftModel(config).eval()
    theirs.load_state_dict({"embed_tokens.weight": theirs_embed, **written.tensors}, strict=False)
    head = load_head(read_adapter(str(tmp_path / "head")), decoder)

    features = torch.randn(12, 3 * 64)
    ids = torch.randint(ROWS, (12,))
    made: list[torch.Tensor] = []
    chosen: list[torch.Tensor] = []
    theirs.norm.register_forward_pre_hook(lambda _, inputs: made.append(inputs[0][0]))
    theirs.norm.register_forward_hook(lambda _, __, output: chosen.append(output[0]))
    with torch.compiler.set_stance("force_eager"):
        theirs(features[None], ids[None], torch.zeros(1, 12, dtype=torch.long), ttt_steps=STEPS)
    guessed = chosen if flags.get("norm_output") else made
    assert len(made) == STEPS

    largest = 0.0
    for length in range(1, 12 - STEPS):
        passes = HeadPass(head, decoder, 4)
        states = head.taken(features[:length], decoder)
        passes.look_back(states[:-1], head.embed(ids[: length - 1], decoder))
        guess = passes.follow(states[-1:], ids[length - 1 : length])
        for step in range(STEPS):
            expected = guessed[step][length - 1]
            largest = max(largest, float((guess[0] - expected).abs().max() / expected.abs().max()))
            own = (theirs.lm_head.weight @ chosen[step][length - 1]).argmax()
            token = own if theirs.d2t is None else own + theirs.d2t[own]
            assert int(passes.logits(guess).argmax()) == int(token)
            guess = passes.follow(guess, ids[length + step : length + step + 1])
    print(f"{flags}: largest difference {largest:.1e} of the largest state")
    assert largest < 1e-4
