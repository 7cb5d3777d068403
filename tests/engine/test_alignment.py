"""Vocabularies that differ: ids are mapped or text is passed, and answers stay the target's."""

from __future__ import annotations

import copy
import io
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import sentencepiece
import torch

import played_rounds
from engines.decoder.decoding import Limits
from engines.decoder.sampling import greedy
from engines.drafters.drafter import Verified
from engines.drafters.model_drafter import ModelDrafter, ReencodingDrafter
from engines.engine import LocalEngine
from engines.inspection import inspect_vocabularies
from engines.loading.shapes import random_config, random_vocabulary
from engines.loading.weights import load_model
from engines.speculation.rounds import Verifier
from engines.tokens.tokenization import SentencePieceVocabulary, SyntheticVocabulary, Vocabulary
from engines.tokens.vocabulary_alignment import LACKING, UNKNOWN_ID, align, vocabulary_facts
from evprof.core.records import RoundRecord
from evprof.core.request import RunRequest
from evprof.core.run_info import REENCODED, SAME, SHARED
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from run_logs import runs_of

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
def test_a_draft_with_its_ids_renamed_drafts_the_same(make_llama, sink, temperature: float) -> None:
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


CPU = torch.device("cpu")

CAPTIONS = [
    f"A {colour} {vehicle} is {motion} a road that curves to the {side}, with {beside} on both sides."
    for colour in ("red", "blue", "white")
    for vehicle in ("bus", "motorcycle", "truck")
    for motion in ("approaching on", "moving away on", "crossing")
    for side in ("left", "right")
    for beside in ("trees", "buildings")
]
NOTES = [
    f"{who} {did} the {thing} in the {place}; nobody else noticed it {when}."
    for who in ("Anna", "The gardener", "A visitor")
    for did in ("repaired", "painted", "approached")
    for thing in ("bicycle", "fence", "greenhouse")
    for place in ("courtyard", "village", "rain")
    for when in ("yesterday", "afterwards")
]

TEXTS = [
    "A red bus is approaching on a road that curves to the left, with trees on both sides.",
    "Anna repaired the greenhouse in the village; nobody else noticed it yesterday.",
    "Two cafés, 17 crêpes — naïve prices: 3.50 €!",
    "日本の道路 with a 🚌 on it",
    "line one\nline two\n  indented",
    "aaaaaaaaaaaaaaaaaaaa",
    "unbelievablelongwordwithoutspaces",
]


def trained(lines: Sequence[str], size: int, kind: str, **changes: Any) -> SentencePieceVocabulary:
    """A vocabulary of its own, as Llama's unless something is changed."""
    model = io.BytesIO()
    options = {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "allow_whitespace_only_pieces": True,
        **changes,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(lines)),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        byte_fallback=True,
        character_coverage=1.0,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return SentencePieceVocabulary(model.getvalue())


@pytest.fixture(scope="module")
def captions() -> SentencePieceVocabulary:
    return trained(CAPTIONS, 400, "bpe")


@pytest.fixture(scope="module")
def notes() -> SentencePieceVocabulary:
    """Another algorithm, other text, and sentencepiece's usual cleaning of spaces."""
    return trained(NOTES, 300, "unigram", remove_extra_whitespaces=True)


@dataclass
class Reciter:
    """Stands where a prefilled model does and goes on with the ids it knows by heart, as long as it is fed these."""

    script: list[int]
    role: str = "draft"
    device: torch.device = CPU
    prompt_length: int = 5
    rolled_back: int = 0
    fed: list[int] = field(default_factory=list)
    steps: int = 0

    @property
    def length(self) -> int:
        return self.prompt_length + len(self.fed)

    def step(self, ids: torch.Tensor, keep: int = 1) -> torch.Tensor:
        assert ids.shape[1] > 0
        self.steps += ids.shape[1]
        self.fed += ids[0].tolist()
        place = len(self.fed)
        knows = self.fed == self.script[:place] and place < len(self.script)
        logits = torch.zeros(1, 1, 1 + max(self.script))
        logits[0, 0, self.script[place] if knows else 0] = 1
        return logits

    def crop(self, length: int) -> int:
        surplus = max(0, self.length - length)
        del self.fed[len(self.fed) - surplus :]
        return surplus

    def note_length(self, answer: Any) -> None: ...


@pytest.fixture(scope="module")
def pair(
    notes: SentencePieceVocabulary, captions: SentencePieceVocabulary
) -> tuple[SentencePieceVocabulary, SentencePieceVocabulary]:
    """A draft's and a target's."""
    return notes, captions


def reciting(text: str, own: Vocabulary, target: Vocabulary) -> tuple[ReencodingDrafter, Reciter]:
    model = Reciter([*own.encode(text), min(own.eos_ids)])
    return ReencodingDrafter("reciter", model, own, target), model  # type: ignore[arg-type]  # stands for a CachedModel


def heard_out(drafter: ReencodingDrafter, expected: Sequence[int], gamma: int) -> tuple[int, int, int]:
    """Greedy rounds against a target that says `expected`: how many there were, drafted, accepted."""
    ids, rounds, drafted, accepted = [expected[0]], 0, 0, 0
    while len(ids) < len(expected):
        proposal = drafter.propose(ids, gamma, lambda: False)
        assert proposal.laws is None
        told = proposal.ids.tolist()
        assert len(told) <= gamma
        stands = 0
        while stands < len(told) and len(ids) + stands < len(expected) and told[stands] == expected[len(ids) + stands]:
            stands += 1
        ids += expected[len(ids) : len(ids) + stands + 1]
        rounds, drafted, accepted = rounds + 1, drafted + len(told), accepted + stands
        drafter.observe(ids, Verified(range(stands + 1)))
    return rounds, drafted, accepted


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("gamma", [1, 4, 12])
def test_a_draft_that_knows_the_text_is_understood(
    captions: SentencePieceVocabulary, notes: SentencePieceVocabulary, text: str, gamma: int
) -> None:
    """Whole words pass; only a last word that was cut short may come back as other pieces."""
    for own, target in ((notes, captions), (captions, notes), (captions, captions), (SyntheticVocabulary(), captions)):
        # What both vocabularies can say of it.
        said = target.decode(target.encode(own.decode(own.encode(text))))
        expected = [*target.encode(said), min(target.eos_ids)]
        drafter, model = reciting(said, own, target)
        rounds, drafted, accepted = heard_out(drafter, expected, gamma)
        if own is target:
            assert accepted == drafted
        else:
            assert accepted >= drafted / 5
        assert accepted > 0 or gamma == 1
        # What stands in its cache is not computed again.
        assert model.steps <= 2 * len(model.script) + rounds * (gamma + 1)


def test_text_in_the_middle_of_a_character_or_word_is_waited_for(captions: SentencePieceVocabulary) -> None:
    own = SyntheticVocabulary()
    text = "a 🚌 comes"
    expected = [*captions.encode(text), 2]
    drafter, _ = reciting(text, own, captions)
    for cut in range(1, len(expected)):
        said = captions.decode(expected[:cut])
        told = drafter.propose(expected[:cut], 12, lambda: False).ids.tolist()
        # The last word may be cut short, and then its last piece is another.
        assert told[:-1] == expected[cut : cut + len(told)][:-1]
        if not said.strip("\ufffd"):
            assert told == []
        drafter.observe(expected[:cut], Verified([0]))
    assert drafter.propose([0xFF], 4, lambda: False).size <= 4


def test_the_end_of_the_draft_is_the_end_of_the_answer(
    captions: SentencePieceVocabulary, notes: SentencePieceVocabulary
) -> None:
    text = TEXTS[0]
    ids = captions.encode(text)
    for known in (ids, ids[:-1]):
        drafter, _ = reciting(text, notes, captions)
        assert drafter.propose(known, 16, lambda: False).ids.tolist()[-1] == 2
    # Text that the answer has not: nothing can be said after it.
    stray, _ = reciting("something else", notes, captions)
    assert stray.propose(ids[:4], 3, lambda: False).size <= 3


@pytest.mark.parametrize("gamma", [1, 5])
def test_any_draft_is_lossless_and_its_cache_is_that_of_the_text(
    make_llama, sink, pair: tuple[SentencePieceVocabulary, SentencePieceVocabulary], gamma: int
) -> None:
    """Random models: answers are full of broken characters and unusual pieces, drafts are never right."""
    notes, captions = pair
    for seed in range(4):
        target = make_llama(seed, vocabulary=captions.size + 3)
        draft = make_llama(seed + 50, vocabulary=notes.size + 5)
        prompt = played_rounds.prompt_of(seed)
        expected = played_rounds.plain(target, prompt, Limits(32), sink)
        one = played_rounds.cached(draft, "draft")
        one.prefill(one.decoder.embed(prompt), threading.Event())
        drafter = ReencodingDrafter("draft", one, notes, captions)
        sink.records.clear()
        played = played_rounds.play(target, drafter, prompt, Limits(32), sink, gamma=gamma)
        assert played.ids == expected
        played_rounds.assert_cache_is_fresh(played.target, target, played_rounds.sequence(prompt, expected[:-1]))
        heard = notes.encode(captions.decode(expected).rstrip("\ufffd"))
        held = one.length - one.prompt_length
        assert held < len(heard)
        played_rounds.assert_cache_is_fresh(one, draft, played_rounds.sequence(prompt, heard[:held]))
        assert sum(record.drafted for record in sink.of(RoundRecord)) > 0


@pytest.mark.parametrize(("temperature", "top_k"), [(0.0, 0), (0.8, 0), (1.0, 1)])
def test_a_run_of_the_bundled_pair_passes_text_where_vocabularies_differ(
    captions: SentencePieceVocabulary, sample: Any, temperature: float, top_k: int
) -> None:
    """As if the bundled draft had come with another vocabulary: the run says so, and the target's answer stays."""

    def load(choice: ModelChoice, role: str, progress: Any, stop: Any) -> Any:
        model = load_model(choice, role, progress, stop)
        if role == "draft":
            model.vocabulary = captions
        return model

    engine = LocalEngine(loader=load)
    draft, target = ModelChoice(BUNDLED_DRAFT), ModelChoice(BUNDLED_TARGET)
    found = []
    for mode in ("target", "speculative"):
        asked = GenerationSettings(
            max_new_tokens=24, speculation=SpeculationSettings(gamma=4), temperature=temperature, top_k=top_k, seed=5
        )
        found.append(runs_of(engine, RunRequest(mode, sample, draft, target, asked))[0])
    engine.close()
    plain, drafted = found
    assert (plain.info.error, drafted.info.error) == (None, None)
    facts = drafted.info.speculation
    assert (facts.alignment, facts.is_lossless, facts.draft_ids, facts.target_ids) == (REENCODED, True, 400, 768)
    ids = [[token.token_id for token in run.tokens if token.origin != "rejected"] for run in found]
    assert len(ids[1]) == 24
    if not temperature or top_k == 1:
        assert ids[0] == ids[1]
    assert sum(one.drafted for one in drafted.rounds) > 0
