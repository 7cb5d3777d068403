"""Verification keeps the target's law, greedy outcomes are exact, near-ties are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2

import played_rounds as kit
import scripted_drafters as drafters
from engines.decoder.decoding import Limits
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import distribution, draw, make_generator
from engines.drafters.drafter import Proposal
from engines.drafters.lookup_drafter import AnswerMemory, RecyclingDrafter
from engines.drafters.suffix_drafter import SuffixDrafter
from engines.speculation.near_ties import NEAR_TIE_ULPS, divergence
from engines.speculation.rounds import Judged, Verifier, reject
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.generation import GenerationSettings

pytestmark = pytest.mark.usefixtures("without_gradients")

V, DRAWS = 16, 40_000
NO_EOS: frozenset[int] = frozenset()
WORST = 1e-4
"""Chance of a right sampler being refused by one test; seeds are fixed, so that it happens now or never."""

Rule = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]
"""As `engines.speculation.rounds.reject`."""


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@dataclass
class Pair:
    """Logits of target and draft for three tokens: [V], [V, V] by the first, [V, V, V] by the first two."""

    target: list[torch.Tensor]
    draft: list[torch.Tensor]
    settings: GenerationSettings

    def laws(self, tables: list[torch.Tensor]) -> list[torch.Tensor]:
        return [distribution(table, self.settings) for table in tables]


def pair(kind: str, **settings: Any) -> Pair:
    """How draft and target differ: "near", "far", "same", or "disjoint" (nothing that one says the other says)."""
    drawn = seeded(5)
    target = [1.2 * torch.randn((V,) * depth, generator=drawn) for depth in (1, 2, 3)]
    if kind == "same":
        draft = target
    elif kind == "disjoint":
        apart = torch.arange(V) % 2 == 0
        draft = [table.masked_fill(apart, -torch.inf) for table in target]
        target = [table.masked_fill(~apart, -torch.inf) for table in target]
    else:
        by = 0.7 if kind == "near" else 2.0
        draft = [table + by * torch.randn(table.shape, generator=drawn) for table in target]
    return Pair(target, draft, GenerationSettings(**{"temperature": 1.0, **settings}))


def blocks(given: Pair, drawn: torch.Generator, count: int = DRAWS) -> tuple[torch.Tensor, ...]:
    """Two drafted tokens a draw: ids [N, 2], what they were drawn from [N, 2, V], the target's laws [N, 3, V]."""
    own, theirs = given.laws(given.draft), given.laws(given.target)
    first = draw(own[0].expand(count, V), drawn)[:, 0]
    second = draw(own[1][first], drawn)[:, 0]
    drafted = torch.stack([own[0].expand(count, V), own[1][first]], dim=1)
    law = torch.stack([theirs[0].expand(count, V), theirs[1][first], theirs[2][first, second]], dim=1)
    return torch.stack([first, second], dim=1), drafted, law


def chi_square(said: list[np.ndarray], tables: list[torch.Tensor]) -> tuple[float, int]:
    """Statistic and degrees of freedom of tokens [N, depth + 1] under tables [V, ...], cells below 5 expected pooled.

    The last of them is held against the law that the ones before it give, those being taken as they are.
    """
    statistic, freedom = 0.0, 0
    for tokens, table in zip(said, tables, strict=True):
        law = table.double().numpy().reshape(-1, V)
        rows = np.ravel_multi_index(tuple(tokens[:, :-1].T), (V,) * (tokens.shape[1] - 1)) if tokens.shape[1] > 1 else 0
        seen = np.zeros_like(law)
        np.add.at(seen, (rows + np.zeros(len(tokens), dtype=int), tokens[:, -1]), 1)
        for counts, chances in zip(seen, law / law.sum(-1, keepdims=True), strict=True):
            expected = counts.sum() * chances
            if counts[chances == 0].any():
                return float("inf"), 1
            is_rare = expected < 5
            cells = np.append(counts[~is_rare], counts[is_rare].sum())
            means = np.append(expected[~is_rare], expected[is_rare].sum())
            cells, means = cells[means > 0], means[means > 0]
            if len(cells) > 1 and means.min() >= 5:
                statistic += float(((cells - means) ** 2 / means).sum())
                freedom += len(cells) - 1
    return statistic, freedom


def assert_is_the_targets_law(emitted: list[tuple[int, ...]], given: Pair) -> tuple[float, int]:
    """Sequences of one to three tokens against the target's law. At least 20,000 of them."""
    assert len(emitted) >= 20_000
    said = [np.array([tokens[:depth] for tokens in emitted if len(tokens) >= depth]) for depth in (1, 2, 3)]
    tables = given.laws(given.target)
    for depth, (tokens, table) in enumerate(zip(said, tables, strict=True), 1):
        if not len(tokens):
            continue
        statistic, freedom = chi_square([tokens], [table])
        critical = chi2.isf(WORST, max(1, freedom))
        assert statistic <= critical, f"token {depth}: chi-square {statistic:.0f} > {critical:.0f} (df {freedom})"
    return chi_square([tokens for tokens in said if len(tokens)], tables[: sum(map(bool, map(len, said)))])


def emitted_by(rule: Rule, given: Pair, seed: int = 1) -> list[tuple[int, ...]]:
    """What a rule makes of drawn blocks."""
    drawn = seeded(seed)
    ids, drafted, law = blocks(given, drawn)
    told = rule(ids, drafted, law, drawn)
    return [
        (*tokens[:stands], following) for tokens, (stands, following) in zip(ids.tolist(), told.tolist(), strict=True)
    ]


CASES = {
    "near": pair("near"),
    "far": pair("far"),
    "same": pair("same"),
    "disjoint": pair("disjoint"),
    "cold": pair("near", temperature=0.4),
    "hot": pair("far", temperature=2.5),
    "top-k": pair("near", top_k=4),
    "top-p": pair("near", top_p=0.7),
    "all three": pair("near", temperature=0.7, top_k=6, top_p=0.8),
}


@pytest.mark.parametrize("case", CASES)
def test_drawn_proposals_leave_the_targets_law(case: str, record_property: Any) -> None:
    emitted = emitted_by(reject, CASES[case])
    statistic, freedom = assert_is_the_targets_law(emitted, CASES[case])
    record_property("chi-square", f"{statistic:.1f} (df {freedom})")
    lengths = {len(tokens) for tokens in emitted}
    assert lengths == {"same": {3}, "disjoint": {1}}.get(case, {1, 2, 3})


@pytest.mark.parametrize("case", ["near", "far", "top-k", "all three"])
def test_acceptance_is_one_minus_the_total_variation(case: str) -> None:
    given = CASES[case]
    emitted = emitted_by(reject, given)
    own, theirs = given.laws(given.draft)[0].double(), given.laws(given.target)[0].double()
    overlap = float(torch.minimum(own, theirs).sum())
    share = sum(len(tokens) > 1 for tokens in emitted) / len(emitted)
    assert abs(share - overlap) < 4 * (overlap * (1 - overlap) / len(emitted)) ** 0.5


TREES = {
    "chain": (-1, 0),
    "fork": (-1, -1, -1),
    "two levels": (-1, -1, -1, 0, 0, 1),
    "comb": (-1, -1, 1, 1, 0),
}


def ways_of(parents: tuple[int, ...], tokens: list[int]) -> list[tuple[int, ...]]:
    """The tokens on the way to the block's places, the last token's first."""
    ways: list[tuple[int, ...]] = [()]
    for token, parent in zip(tokens, parents, strict=False):
        ways.append((*ways[parent + 1], token))
    return ways


def likely(given: Pair, parents: tuple[int, ...]) -> list[int]:
    """A token for each node: of siblings the first says the likeliest, the next the second likeliest."""
    laws = given.laws(given.target)
    tokens: list[int] = []
    for node, parent in enumerate(parents):
        way = ways_of(parents, tokens)[parent + 1]
        rank = parents[:node].count(parent)
        tokens.append(int(laws[len(way)][way].argsort(descending=True)[rank]))
    return tokens


def walked(given: Pair, parents: tuple[int, ...], tokens: list[int], *, mutant: bool = False) -> list[tuple[int, ...]]:
    """What certain proposals give: one and the same tree, held against as many draws of the target's own."""
    count = 20_000
    logits = torch.stack([given.target[len(way)][way] for way in ways_of(parents, tokens)])
    verifier = Verifier(partial(distribution, settings=given.settings), seeded(3))
    choices = verifier.sample(logits.repeat(count, 1)).reshape(count, -1)
    if mutant:  # wrong: what was drafted first stands one time in four, whatever the target drew
        choices[torch.rand(count, generator=seeded(4)) < 0.25, 0] = tokens[0]
    is_chain = parents == tuple(range(-1, len(parents) - 1))
    proposal = Proposal(torch.tensor(tokens), parents=None if is_chain else parents)
    return [verifier.conclude(proposal, [*tokens, *row], NO_EOS).emitted for row in choices.tolist()]


@pytest.mark.parametrize("shape", TREES)
@pytest.mark.parametrize("case", ["near", "all three"])
def test_certain_proposals_leave_the_targets_law(case: str, shape: str) -> None:
    given, parents = CASES[case], TREES[shape]
    tokens = likely(given, parents)
    emitted = walked(given, parents, tokens)
    assert_is_the_targets_law(emitted, given)
    assert max(map(len, emitted)) == (2 if shape == "fork" else 3)
    assert case != "near" or min(map(len, emitted)) == 1
    with pytest.raises(AssertionError, match="chi-square"):
        assert_is_the_targets_law(walked(given, parents, tokens, mutant=True), given)


def test_look_and_conclude_do_it_one_round_at_a_time() -> None:
    """The same law through the calls that a round makes."""
    given = CASES["near"]
    drawn = seeded(7)
    ids, drafted, _ = blocks(given, drawn, 20_000)
    verifier = Verifier(partial(distribution, settings=given.settings), drawn)
    emitted = []
    for chain, laws in zip(ids, drafted, strict=True):
        one, two = chain.tolist()
        logits = torch.stack([given.target[0], given.target[1][one], given.target[2][one, two]])
        proposal = Proposal(chain, laws)
        emitted.append(verifier.conclude(proposal, verifier.look(proposal, logits).tolist(), NO_EOS).emitted)
    assert_is_the_targets_law(emitted, given)


class FavoursTheDraft(Verifier):
    """Wrong: what was drafted first stands one time in four, whatever the target drew."""

    def look(self, proposal: Proposal, logits: torch.Tensor) -> torch.Tensor:
        told = super().look(proposal, logits)
        if proposal.size and torch.rand((), generator=self._generator) < 0.25:
            told[proposal.size] = proposal.ids[0]
        return told


ANSWERED = {"model": (), "certain": (), "suffix": (), "recycled": (), "recycled tree": (3, 2)}


@pytest.mark.parametrize("who", ANSWERED)
def test_whole_answers_are_drawn_from_the_targets_law(make_llama: Any, sink: Any, who: str) -> None:
    """Rounds over caches: all three tokens of an answer against the laws that fresh passes give."""
    answers = partial(_answers, make_llama, sink, who)
    statistic, critical = answers(Verifier)
    assert statistic < critical
    if who not in ("model", "certain"):
        wrong, critical = answers(FavoursTheDraft)
        assert wrong > critical


def _answers(make_llama: Any, sink: Any, who: str, judge: Any) -> tuple[float, float]:
    """Chi-square of a thousand answers of three tokens, and what it may be."""
    rows, prompt, settings = 6, torch.tensor([[1, 4, 2]]), GenerationSettings(temperature=1.0)
    model, other = (make_llama(seed, layers=1, hidden=16, vocabulary=rows, kv_heads=4) for seed in (1, 2))
    law = partial(distribution, settings=settings)
    verifier, drawn = judge(law, seeded(1)), seeded(2)
    target, draft = kit.cached(model), kit.cached(other, "draft")
    counts: dict[tuple[int, ...], int] = {}
    memory: AnswerMemory[Any] = AnswerMemory(60)  # what is drafted follows from what was drawn before
    for number in range(1000):
        target.crop(0)
        draft.crop(0)
        drafter: Any
        if who == "model":
            drafter = kit.drafting(draft, prompt, rows, law=law, generator=drawn)
        elif who == "suffix":
            said_before: AnswerMemory[tuple[int, ...]] = AnswerMemory(60)
            said_before.remember(0, 12, (*range(rows), *range(rows)))
            drafter = SuffixDrafter(torch.device("cpu"), memory=said_before, about=1)
        elif who.startswith("recycled"):
            drafter = RecyclingDrafter(torch.device("cpu"), rows, widths=ANSWERED[who], memory=memory, about=number)
        else:
            drafter = drafters.guesser(3, rows)
        said = kit.play(target, drafter, prompt, Limits(3), sink, gamma=2, verifier=verifier).ids
        counts[tuple(said)] = counts.get(tuple(said), 0) + 1
        sink.records.clear()
    every = torch.cartesian_prod(*[torch.arange(rows)] * 3)
    laws = law(model(torch.cat([prompt.expand(len(every), -1), every], dim=1)).logits[:, 2:5].flatten(0, 1))
    chances = laws.reshape(len(every), 3, rows).gather(2, every[..., None])[..., 0].prod(-1).double().numpy()
    seen = np.array([counts.get(tuple(row), 0) for row in every.tolist()])
    expected = chances / chances.sum() * seen.sum()
    is_rare = expected < 5
    cells, means = (np.append(part[~is_rare], part[is_rare].sum()) for part in (seen, expected))
    assert len(cells) > 15
    return float(((cells - means) ** 2 / means).sum()), float(chi2.isf(WORST, len(cells) - 1))


OUTCOME_ROWS = 16


@pytest.mark.parametrize("is_drawn", [True, False])
def test_a_temperature_near_nothing_is_greedy(is_drawn: bool) -> None:
    settings = GenerationSettings(temperature=1e-6)
    law = partial(distribution, settings=settings)
    drawn, greedy = seeded(8), Verifier()
    cold = Verifier(law, drawn)
    for _ in range(300):
        logits = torch.randn(5, OUTCOME_ROWS, generator=drawn)
        own = logits[:4] + 0.5 * torch.randn(4, OUTCOME_ROWS, generator=drawn)
        ids = own.argmax(-1)
        proposal = Proposal(ids, law(own) if is_drawn else None)
        outcomes = [one.conclude(proposal, one.look(proposal, logits).tolist(), NO_EOS) for one in (cold, greedy)]
        assert outcomes[0] == outcomes[1]


def test_the_same_seed_decides_the_same_way() -> None:
    settings = GenerationSettings(temperature=1.0, seed=11)
    law = partial(distribution, settings=settings)
    logits = torch.randn(5, OUTCOME_ROWS, generator=seeded(9))
    own = law(torch.randn(4, OUTCOME_ROWS, generator=seeded(10)))
    told = []
    for _ in range(2):
        verifier = Verifier(law, make_generator(settings, torch.device("cpu"), stream=1))
        told.append([verifier.look(Proposal(torch.arange(4), own), logits).tolist() for _ in range(20)])
    assert told[0] == told[1]
    assert len({tuple(row) for row in told[0]}) > 1


def test_what_the_target_never_says_never_stands() -> None:
    """A token the target gives no chance, and laws that agree to the last bit."""
    law = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]).expand(2000, 2, 3)
    drafted = torch.tensor([[0.0, 0.0, 1.0]]).expand(2000, 1, 3)
    told = reject(torch.full((2000, 1), 2), drafted, law, seeded(1))
    assert set(told[:, 0].tolist()) == {0}
    assert set(told[:, 1].tolist()) == {0, 1}
    same = reject(torch.ones(2000, 1, dtype=torch.long), law[:, :1], law, seeded(1))
    assert set(same[:, 0].tolist()) == {1}
    assert set(same[:, 1].tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("drafted", "choices", "parents", "eos", "expected"),
    [
        ([], [5], None, set(), ((0,), (5,))),
        ([1, 2], [1, 2, 3], None, set(), ((0, 1, 2), (1, 2, 3))),
        ([1, 2], [1, 7, 3], None, set(), ((0, 1), (1, 7))),
        ([1, 2], [7, 2, 3], None, set(), ((0,), (7,))),
        ([1, 2], [1, 2, 3], None, {1}, ((0, 1), (1,))),
        ([1, 2], [1, 2, 3], None, {2}, ((0, 1, 2), (1, 2))),
        ([1, 2], [1, 7, 3], None, {7}, ((0, 1), (1, 7))),
        ([7, 2], [1, 2, 3], None, {7}, ((0,), (1,))),
        # A tree: 4 and 5 below the last token, 6 and 7 below 5.
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), set(), ((0, 2, 4), (5, 7, 9))),
        ([4, 5, 6, 7], [4, 7, 7, 0, 9], (-1, -1, 1, 1), set(), ((0, 1), (4, 7))),
        ([4, 5, 6, 7], [6, 7, 7, 0, 9], (-1, -1, 1, 1), set(), ((0,), (6,))),
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), {5}, ((0, 2), (5,))),
        ([4, 5, 6, 7], [5, 0, 7, 0, 9], (-1, -1, 1, 1), {7}, ((0, 2, 4), (5, 7))),
        # Of two siblings that say the same the first is followed.
        ([4, 4, 6, 7], [4, 6, 7, 0, 9], (-1, -1, 0, 1), set(), ((0, 1, 3), (4, 6, 0))),
    ],
)
def test_greedy_outcomes(
    drafted: list[int], choices: list[int], parents: tuple[int, ...] | None, eos: set[int], expected: Any
) -> None:
    proposal = Proposal(torch.tensor(drafted, dtype=torch.long), parents=parents)
    logits = torch.nn.functional.one_hot(torch.tensor(choices), OUTCOME_ROWS).float()
    verifier = Verifier()
    judged = verifier.conclude(proposal, verifier.look(proposal, logits).tolist(), frozenset(eos))
    assert judged == Judged(*expected)
    assert judged.accepted == len(expected[0]) - 1


ROWS = 2000


def in_half(model: Any) -> Any:
    return model.to(torch.bfloat16)


def test_every_divergence_in_bfloat16_is_a_near_tie(make_llama, sink, capsys) -> None:
    found = []
    accepted = drafted = 0
    for seed in range(60):
        if seed % 10 == 0:
            full = make_llama(seed // 10, vocabulary=ROWS)
            draft = in_half(kit.noisy(full, 0.02, seed))
            target = LlamaDecoder.take_over(in_half(full))
        prompt = kit.prompt_of(seed)
        plain = kit.plain(target, prompt, Limits(48), sink)
        assert len(set(plain)) > 25
        sink.records.clear()
        played = kit.play(kit.cached(target), kit.drafting(draft, prompt, ROWS), prompt, Limits(48), sink)
        accepted += sum(record.accepted for record in sink.of(RoundRecord))
        drafted += sum(record.drafted for record in sink.of(RoundRecord))
        found.append(divergence(target, target.embed(prompt), plain, played.ids))
    flips = [one for one in found if one is not None]
    with capsys.disabled():
        print(f"\n  bf16: {len(flips)} of {len(found)} answers of 48 tokens flip, ", end="")
        widest = max((one.gap_ulps for one in flips), default=None)
        print(f"widest gap {widest} ulp, {accepted / drafted:.0%} of drafts accepted")
    assert len(found) == 60
    assert 0 < accepted < drafted
    assert [one for one in flips if one.gap_ulps > NEAR_TIE_ULPS / 4] == []


def test_in_float32_nothing_diverges(make_llama: Any, sink: Any) -> None:
    model = make_llama(1)
    target, prompt = LlamaDecoder.take_over(model), kit.prompt_of(1)
    plain = kit.plain(target, prompt, Limits(40), sink)
    played = kit.play(kit.cached(target), kit.drafting(kit.noisy(model, 0.03), prompt, 257), prompt, Limits(40), sink)
    assert divergence(target, target.embed(prompt), plain, played.ids) is None


def test_a_wrong_answer_is_no_near_tie(make_llama: Any, sink: Any) -> None:
    """What a verifier that lets drafts pass would give: found at its place, and far away."""
    target, prompt = LlamaDecoder.take_over(in_half(make_llama(1))), kit.prompt_of(1)
    plain = kit.plain(target, prompt, Limits(24), sink)
    wide = 0
    for place in range(24):
        other = [*plain[:place], (plain[place] + 1) % 257, *plain[place + 1 :]]
        found = divergence(target, target.embed(prompt), plain, other)
        assert (found.position, found.plain_id, found.other_id) == (place, plain[place], other[place])
        wide += found.gap_ulps > NEAR_TIE_ULPS
    assert wide >= 22


def test_the_plain_prefix_is_forced(make_llama: Any, sink: Any) -> None:
    """At any place the plain answer's own token has no gap at all, in chunks of the prompt as well."""
    target, prompt = LlamaDecoder.take_over(in_half(make_llama(2))), kit.prompt_of(2)
    for chunk in (0, 4):
        plain = kit.plain(target, prompt, Limits(16), sink, chunk=chunk)
        for place in (0, 1, 15):
            swapped = [*plain[:place], (plain[place] + 5) % 257, *plain[place + 1 :]]
            found = divergence(target, target.embed(prompt), swapped, plain, prefill_chunk=chunk)
            assert found.gap_ulps == 0.0
