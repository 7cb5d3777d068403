"""Trees that grow where a drafter is sure: the nodes are those brute force chooses, answers the target's own, draws its
law."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from engines.adapters.medusa import load_medusa
from engines.adapters.published import load_head
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.drafters import head_drafter as dynamic_tree
from engines.drafters.drafter import Proposal
from engines.drafters.eagle_drafter import EagleDrafter
from engines.drafters.head_drafter import MedusaDrafter, grow
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.speculation import DynamicTree
from evprof.loaders.adapters import read_adapter
from published_heads import Reference, eagle1, eagle3, medusa, save

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


Path_ = tuple[int, ...]


class Drawn:
    """A drafter of `rows` tokens whose logits after a path are drawn from its spelling; some are equal."""

    def __init__(self, seed: int, rows: int, spread: int) -> None:
        self.seed, self.rows, self.spread = seed, rows, spread
        self.paths: list[Path_] = [()]

    def logits(self, path: Path_) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, path)) % (1 << 62))
        return torch.randint(0, self.spread + 1, (self.rows,), generator=generator).float()

    def expand(self, ids: torch.Tensor, rows: torch.Tensor, level: int) -> torch.Tensor:
        self.paths = [(*self.paths[row], token) for row, token in zip(rows.tolist(), ids.tolist(), strict=True)]
        assert {len(path) for path in self.paths} == {level}
        return torch.stack([self.logits(path) for path in self.paths])

    def chance(self, path: Path_) -> float:
        return float(sum(self.logits(path[:end]).log_softmax(-1)[path[end]] for end in range(len(path))))


def paths_of(proposal: Proposal) -> list[Path_]:
    assert proposal.parents is not None
    found: list[Path_] = []
    for token, parent in zip(proposal.ids.tolist(), proposal.parents, strict=True):
        assert parent < len(found)
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 4),
    spread=st.sampled_from([0, 1, 5]),
    nodes=st.integers(1, 30),
    depth=st.integers(1, 3),
)
def test_the_nodes_are_the_likeliest_of_all_paths(seed: int, rows: int, spread: int, nodes: int, depth: int) -> None:
    """Wider than it has nodes, nothing better is missed: the tree is the best there is."""
    drawn = Drawn(seed, rows, spread)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(dynamic_tree, "WIDTH", 64)
        proposal = grow(
            drawn.logits(())[None], drawn.expand, DynamicTree(nodes, depth), choices=rows, is_stopped=lambda: False
        )
    found = paths_of(proposal)
    every = [path for length in range(1, depth + 1) for path in product(range(rows), repeat=length)]
    assert len(set(found)) == len(found) == proposal.size == min(nodes, len(every))
    best = sorted((drawn.chance(path) for path in every), reverse=True)[: proposal.size]
    assert sorted((drawn.chance(path) for path in found), reverse=True) == pytest.approx(best, abs=1e-4)


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("limits", [DynamicTree(1, 1), DynamicTree(6, 3), DynamicTree(40, 5)])
@pytest.mark.parametrize("kind", ["EAGLE-1", "EAGLE-3", "Medusa"])
def test_answers_are_the_targets_own(
    *,
    kind: str,
    limits: DynamicTree,
    decoder: LlamaDecoder,
    target: LlamaForCausalLM,
    sink: Any,
    kit: ModuleType,
    tmp_path: Path,
) -> None:
    make = drafting(kind, decoder, target, tmp_path, dynamic=limits)
    for seed in range(3):
        prompt = kit.prompt_of(seed, 1 + 4 * seed, ROWS)
        expected = kit.plain(decoder, prompt, Limits(24), sink)
        sink.records.clear()
        done = kit.play(kit.cached(decoder), make, prompt, Limits(24), sink, gamma=limits.depth)
        assert done.ids == expected
        kit.assert_cache_is_fresh(done.target, target, kit.sequence(prompt, done.ids[:-1]))
        rounds = sink.of(RoundRecord)
        assert all(record.drafted <= limits.nodes for record in rounds)
        assert all(record.accepted <= record.judged <= record.depth <= limits.depth for record in rounds)
        # Nobody taught the head: the target puts other tokens in place of most.
        assert sum(record.judged > record.accepted for record in rounds) > len(rounds) / 2


def drafting(kind: str, decoder: LlamaDecoder, target: LlamaForCausalLM, folder: Path, **more: Any) -> Any:
    makers: dict[str, Any] = {
        "EAGLE-1": eagle1,
        "EAGLE-3": lambda folder, config: eagle3(folder, config, choices=13),
        "Medusa": medusa,
    }
    save(makers[kind](folder / "head", target.config))
    info = read_adapter(str(folder / "head"))
    if kind == "Medusa":
        heads = load_medusa(info, decoder)
        return lambda one: MedusaDrafter("head", heads, one, **more)
    head = load_head(info, decoder)
    return lambda one: EagleDrafter("head", head, one, frozenset(), **more)


@pytest.mark.usefixtures("without_gradients")
def test_a_heads_tree_is_what_its_reference_thinks(
    decoder: LlamaDecoder, target: LlamaForCausalLM, kit: ModuleType, tmp_path: Path, sink: Any
) -> None:
    """Branches see their own ancestors only: each node's logits are those of its path drafted as a chain."""
    make = drafting("EAGLE-1", decoder, target, tmp_path, dynamic=DynamicTree(25, 4))
    reference = Reference(eagle1(tmp_path / "head", target.config), target)
    prompt = kit.prompt_of(2, 8, ROWS)
    ids = prompt[0].tolist()
    one = kit.cached(decoder)
    drafter = make(one)
    one.keeps_features, one.reads = True, drafter.reads
    first = int(one.prefill(decoder.embed(prompt), kit.NEVER).argmax())
    drafter.start(kit.PromptContext(ids, one.prompt_embeddings, one.features))
    proposal = drafter.propose([first], 4, lambda: False)
    states = reference.states(torch.tensor(ids))
    for path, logits in zip(paths_of(proposal), proposal.logits, strict=True):
        places, embeddings = states, reference.embeddings(torch.tensor([*ids[1:], first]))
        for token in path[:-1]:
            places = torch.cat([places, reference.guesses(places, embeddings)[-1:]])
            embeddings = torch.cat([embeddings, reference.embeddings(torch.tensor([token]))])
        expected = target.lm_head(reference.guesses(places, embeddings)[-1])
        assert torch.allclose(logits[0], expected, atol=1e-3 * float(expected.abs().max()))
