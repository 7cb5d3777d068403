"""How ids of draft and target meet: by what they spell, through tables or cut, and what is told of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.decoder.decoding import Limits
from engines.decoder.sampling import greedy
from engines.drafters.model_drafter import ModelDrafter
from engines.inspection import inspect_vocabularies
from engines.loading.shapes import random_config, random_vocabulary
from engines.speculation.verification import Verifier
from engines.tokens.vocabulary_alignment import LACKING, UNKNOWN_ID, align, vocabulary_facts
from evprof.core.records import RoundRecord
from evprof.core.speculation import REENCODED, SAME, SHARED

pytestmark = pytest.mark.usefixtures("without_gradients")

WORDS = ["<unk>", "", "", *(f" w{index}" for index in range(3, 40))]


class Words:
    """A vocabulary of these pieces; 1 begins and 2 ends unless it says otherwise."""

    def __init__(self, pieces: Sequence[str], bos_id: int = 1, eos_ids: Sequence[int] = (2,)) -> None:
        self.pieces = list(pieces)
        self.bos_id, self.eos_ids = bos_id, frozenset(eos_ids)

    @property
    def size(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        raise AssertionError("ids are compared, not text")

    def token_id(self, piece: str) -> int | None:
        return None

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[index] for index in ids)


def test_equal_vocabularies_are_the_same() -> None:
    found = align(Words(WORDS), Words(WORDS))
    assert (found.kind, found.shared, found.is_prefix, found.coverage) == (SAME, 40, True, 1.0)
    assert found.for_draft([5, 2, 39]) == [5, 2, 39]


def test_published_pairs_with_tokens_of_their_own_above_the_shared_ones_stay_on_the_fast_path() -> None:
    """As EventGPT's <ev_…> tokens and LLaVA's <image> at the same numbers, and Video-LLaVA's three more rows."""
    found = align(Words([*WORDS, "", ""]), Words([*WORDS, "", "", "", ""]))
    assert (found.kind, found.shared, found.is_prefix) == (SHARED, 40, True)
    assert found.for_draft([39, 40, 43, 1000]) == [39, UNKNOWN_ID, UNKNOWN_ID, UNKNOWN_ID]
    logits = torch.arange(42.0)[None]
    assert found.logits_for_target(logits).tolist() == logits[:, :40].tolist()
    real = align(*(random_vocabulary(random_config(f"random:7b-{name}")) for name in ("eventgpt", "video-llava")))
    assert (real.kind, real.shared, real.is_prefix) == (SHARED, 32_000, True)


def test_bundled_vocabularies_share_all_of_the_drafts_ids() -> None:
    found = inspect_vocabularies("evprof-tiny-eventgpt", "evprof-tiny-video-llava")
    assert (found["alignment"], found["shared_ids"], found["draft_ids"], found["target_ids"]) == (SHARED, 765, 765, 768)
    assert (found["coverage"], found["same_number"], found["differing_count"], found["only_draft"]) == (
        1.0,
        True,
        0,
        [],
    )
    assert [entry["id"] for entry in found["only_target"]] == [765, 766, 767]


def test_ids_of_equal_pieces_are_mapped_and_others_masked() -> None:
    draft = Words(["<unk>", "", "", "a", "b", *(f" w{index}" for index in range(20))])
    target = Words(["", "b", "<unk>", "", " own", *(f" w{index}" for index in reversed(range(20)))], 3, (0,))
    found = align(draft, target)
    assert (found.kind, found.shared, found.is_prefix) == (SHARED, 24, False)
    assert found.coverage == 22 / 23
    assert list(found.to_target[:5]) == [2, 3, 0, LACKING, 1]
    assert found.for_draft([0, 1, 2, 3, 4, 99]) == [2, 4, 0, 1, UNKNOWN_ID, UNKNOWN_ID]
    logits = torch.randn(2, 30)
    spread = found.logits_for_target(logits)
    assert spread.shape == (2, 25)
    for own, other in enumerate(found.to_target):
        if other != LACKING:
            assert torch.equal(spread[:, other], logits[:, own])
    assert bool(torch.isinf(spread[:, 4]).all())
    drafted = greedy(spread)
    assert found.ids_for_draft(drafted)[:, 0].tolist() == found.for_draft(drafted[:, 0].tolist())


def test_what_differs_is_listed() -> None:
    first, second = Words(["<unk>", "", "", "a", "b", "c"]), Words(["<unk>", "", "", "a", "x", "", "c"])
    told = vocabulary_facts(first, second)
    assert told["only_draft"] == [{"id": 4, "piece": "b"}]
    assert told["only_target"] == [{"id": 4, "piece": "x"}, {"id": 5, "piece": "<special>"}]
    assert told["differing"] == [
        {"id": 4, "draft": "b", "target": "x"},
        {"id": 5, "draft": "c", "target": "<special>"},
    ]
    assert (told["only_draft_count"], told["only_target_count"], told["differing_count"]) == (1, 2, 2)
    many = vocabulary_facts(Words(WORDS), Words([*WORDS[:3], *(f" v{index}" for index in range(60))]))
    assert (many["only_draft_count"], len(many["only_draft"]), many["differing_count"]) == (37, 10, 37)
    assert many["alignment"] == REENCODED
    json.dumps(many)


def shuffled(model: Any, order: Sequence[int]) -> Any:
    """The same model with its ids renamed: new id i means what order[i] meant."""
    moved = copy.deepcopy(model)
    for weight in (moved.get_input_embeddings().weight, moved.lm_head.weight):
        weight.data = weight.data[list(order)].clone()
    return moved


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_with_its_ids_renamed_drafts_the_same(
    make_llama: Any, sink: Any, played_rounds: ModuleType, temperature: float
) -> None:
    """Rounds, acceptance and answer are those of the draft whose ids were the target's; greedy and drawn."""
    rows = 120
    target = make_llama(1, vocabulary=rows)
    draft = played_rounds.noisy(target, 0.03)
    pieces = [f"p{index}" for index in range(rows)]
    order = [0, *(1 + torch.randperm(rows - 1, generator=torch.Generator().manual_seed(4))).tolist()]
    theirs = Words(pieces, order[7], (order[8],))
    mine = Words([pieces[index] for index in order], 7, (8,))
    alignment = align(mine, theirs)
    assert (alignment.kind, alignment.shared, alignment.is_prefix) == (SHARED, rows, False)
    prompt = played_rounds.prompt_of(1, vocabulary=rows)
    expected = played_rounds.plain(target, prompt, Limits(40), sink)
    law = partial(torch.softmax, dim=-1) if temperature else None
    found = []
    for renamed in (False, True):
        one = played_rounds.cached(shuffled(draft, order) if renamed else draft, "draft")
        seen = torch.tensor([alignment.for_draft(prompt[0].tolist())]) if renamed else prompt
        one.prefill(one.decoder.embed(seen), played_rounds.NEVER)
        drawn = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
        drafter = ModelDrafter(
            "draft",
            one,
            alignment if renamed else align(theirs, theirs),
            frozenset(),
            law=law,
            generator=drawn[0],
            target_rows=rows,
        )
        sink.records.clear()
        played = played_rounds.play(target, drafter, prompt, Limits(40), sink, verifier=Verifier(law, drawn[1]))
        rounds = sink.of(RoundRecord)
        found.append((played.ids, [(one.drafted_ids, one.accepted) for one in rounds]))
        assert played.draft.length == prompt.shape[1] + 39
    assert found[0] == found[1]
    if not temperature:
        assert found[0][0] == expected
    assert 0 < sum(accepted for _, accepted in found[0][1]) < 4 * len(found[0][1])
