"""Medusa heads: what they draft is what each head alone says, answers are the target's own, damage is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from engines.adapters.medusa import load_medusa
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters.head_drafter import MedusaDrafter
from evprof.core.errors import UserError
from evprof.core.records import RoundRecord
from evprof.loaders.adapters import read_adapter
from published_heads import Written, medusa, save

ROWS = 24


@pytest.fixture(scope="session")
def kit(played_rounds: ModuleType) -> ModuleType:
    return played_rounds


@pytest.fixture(scope="module")
def target(make_llama: Any) -> LlamaForCausalLM:
    made: LlamaForCausalLM = make_llama(5, vocabulary=ROWS)
    return made


@pytest.fixture(scope="module")
def decoder(target: LlamaForCausalLM) -> LlamaDecoder:
    return LlamaDecoder.take_over(target)


def drafting(folder: Path, decoder: LlamaDecoder, **more: Any) -> Any:
    heads = load_medusa(read_adapter(str(folder)), decoder)
    return lambda one: MedusaDrafter("heads", heads, one, **more)


def said(written: Written, state: torch.Tensor, blocks: int) -> list[torch.Tensor]:
    """Logits of each head on a normed state [H], from the layout."""
    tensors, logits = written.tensors, []
    for head in range(3):
        hidden = state
        for block in range(blocks):
            made = tensors[f"{head}.{block}.linear.weight"] @ hidden + tensors[f"{head}.{block}.linear.bias"]
            hidden = hidden + made * torch.sigmoid(made)
        logits.append(tensors[f"{head}.{blocks}.weight"] @ hidden)
    return logits


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("as_bin", [False, True])
@pytest.mark.parametrize("blocks", [1, 2])
def test_rounds_draft_what_each_head_says(
    *,
    blocks: int,
    as_bin: bool,
    decoder: LlamaDecoder,
    target: LlamaForCausalLM,
    sink: Any,
    kit: ModuleType,
    tmp_path: Path,
) -> None:
    written = save(medusa(tmp_path / "head", target.config, blocks=blocks), as_bin=as_bin)
    prompt = kit.prompt_of(3, 9, ROWS)
    expected = kit.plain(decoder, prompt, Limits(20), sink)
    sink.records.clear()
    done = kit.play(kit.cached(decoder), drafting(tmp_path / "head", decoder), prompt, Limits(20), sink, gamma=5)
    assert done.ids == expected
    length = 1
    for record in sink.of(RoundRecord):
        before = torch.tensor([[*prompt[0].tolist(), *done.ids[: length - 1]]])
        state = target.model(before).last_hidden_state[0, -1]
        drafted = [int(logits.argmax()) for logits in said(written, state, blocks)][: record.drafted]
        assert record.drafted_ids == ",".join(map(str, drafted))
        assert record.drafted <= 3
        length += record.emitted
    kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("widths", [(3, 2), (2, 2, 2, 2), (30,)])
def test_a_tree_holds_each_heads_likeliest_below_every_node(
    *,
    widths: tuple[int, ...],
    decoder: LlamaDecoder,
    target: LlamaForCausalLM,
    sink: Any,
    kit: ModuleType,
    tmp_path: Path,
) -> None:
    save(medusa(tmp_path / "head", target.config))
    make = drafting(tmp_path / "head", decoder, widths=widths)
    for seed in range(3):
        prompt = kit.prompt_of(seed, 4, ROWS)
        expected = kit.plain(decoder, prompt, Limits(24), sink)
        sink.records.clear()
        done = kit.play(kit.cached(decoder), make, prompt, Limits(24), sink, gamma=len(widths))
        assert done.ids == expected
        nodes, level = 0, 1
        for width in widths[:3]:
            level *= min(width, ROWS)
            nodes += level
        assert sink.of(RoundRecord)[0].drafted == nodes


DAMAGED: dict[str, tuple[Callable[[Written], Any], str]] = {
    "no heads": (lambda written: written.tensors.clear(), "holds 0 heads"),
    "a head missing": (lambda written: written.tensors.pop("1.0.linear.bias"), "lacks '1.0.linear.bias'"),
    "another width": (lambda written: written.tensors.update({"0.1.weight": torch.zeros(ROWS, 8)}), "hidden size 8"),
    "another vocabulary": (
        lambda written: written.tensors.update({"0.1.weight": torch.zeros(ROWS + 1, 64)}),
        "25 tokens",
    ),
    "a vector": (lambda written: written.tensors.update({"0.1.weight": torch.zeros(9)}), "holds 3 heads of 1 blocks"),
    "too many heads": (lambda written: written.tensors.update({"99.1.weight": torch.zeros(9, 64)}), "holds 100 heads"),
    "something else": (lambda written: written.tensors.update(more=torch.zeros(1)), "holds 'more'"),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_heads_are_refused(what: str, decoder: LlamaDecoder, target: LlamaForCausalLM, tmp_path: Path) -> None:
    damage, sentence = DAMAGED[what]
    written = medusa(tmp_path / "head", target.config)
    damage(written)
    if not written.tensors:
        written.tensors["other"] = torch.zeros(1)
    save(written)
    with pytest.raises(UserError, match=sentence):
        load_medusa(read_adapter(str(tmp_path / "head")), decoder)
