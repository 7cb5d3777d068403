"""What both models thought of tokens: judgements and alternatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

import played_rounds as kit
import scripted_drafters as drafters
from engines.decoder.decoding import Limits
from engines.decoder.sampling import distribution, greedy
from engines.drafters.drafter import Proposal
from engines.speculation.rounds import Judged, JudgementLog
from engines.tokens.answer import AlternativesLog
from evprof.core.protocols import monotonic_ns
from evprof.core.records import AlternativesRecord, JudgementRecord, RoundRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings
from run_logs import runs_of

pytestmark = pytest.mark.usefixtures("without_gradients")

V, ROWS = 6, 257
PIECES = list("abcdef")
P = torch.tensor(
    [
        [0.50, 0.20, 0.10, 0.10, 0.05, 0.05],
        [0.05, 0.60, 0.20, 0.05, 0.05, 0.05],
        [0.10, 0.10, 0.10, 0.30, 0.20, 0.20],
        [0.05, 0.05, 0.10, 0.10, 0.30, 0.40],
        [0.25, 0.15, 0.15, 0.15, 0.15, 0.15],
    ]
)
"""The target's law after each of five places of a block."""
Q = torch.tensor(
    [
        [0.40, 0.30, 0.10, 0.10, 0.10, 0.00],
        [0.10, 0.20, 0.50, 0.10, 0.10, 0.00],
        [0.00, 0.00, 0.00, 1.00, 0.00, 0.00],
        [0.20, 0.20, 0.20, 0.20, 0.10, 0.10],
    ]
)
"""The draft's law for each of four drafted tokens."""


def chain(ids: Sequence[int], *, laws: bool = False, rows: int = V) -> Proposal:
    count = len(ids)
    logits = None if laws else [Q[place : place + 1, :rows].log() for place in range(count)]
    return Proposal(torch.tensor(ids), Q[:count] if laws else None, logits=logits)


def told(log: JudgementLog) -> list[JudgementRecord]:
    return list(log.records(7, PIECES))


def one_round(proposal: Proposal, judged: Judged, law: Any = None, place: tuple[int, int] = (3, 10)) -> Any:
    log = JudgementLog(law)
    log.keep(place, proposal, judged, proposal.ids.tolist(), P[: proposal.size + 1].log())
    return told(log)


def test_the_accepted_ones_and_the_first_rejected() -> None:
    """[0, 2, 3] drafted; 0 stands, the target says 1 for 2, and what came after it was never judged."""
    records = one_round(chain([0, 2, 3]), Judged((0, 1), (0, 1)))
    assert records == [
        JudgementRecord(7, 3, 0, 10, 0, 0, 1, 400_000, 500_000, 500_000, 850_000, "a", "a"),
        JudgementRecord(7, 3, 1, 11, 2, 1, 0, 500_000, 200_000, 600_000, 550_000, "c", "b"),
    ]


def test_drawn_tokens_are_judged_by_what_they_were_drawn_from() -> None:
    """With top-k 2 both laws are cut: the target's second row is [0, 3/4, 1/4, 0 …]."""
    law = partial(distribution, settings=GenerationSettings(temperature=1.0, top_k=2))
    records = one_round(chain([1, 2], laws=True), Judged((0, 1), (1, 1)), law)
    first, second = records
    assert (first.draft_ppm, first.cross_ppm, first.overlap_ppm) == (300_000, 285_714, 685_714)
    assert (second.draft_ppm, second.cross_ppm, second.target_ppm) == (500_000, 250_000, 750_000)
    assert second.overlap_ppm == 450_000


def test_a_tree_tells_its_path_and_the_preferred_child_where_that_ended() -> None:
    """Below the last token 0 and 1, below 1 the tokens 2 and 4: 1 stands, then the target says 3 for 2."""
    proposal = Proposal(
        torch.tensor([0, 1, 2, 4]), parents=(-1, -1, 1, 1), logits=[Q[node : node + 1].log() for node in (0, 0, 1, 1)]
    )
    records = one_round(proposal, Judged((0, 2), (1, 3)))
    assert [(one.place, one.position, one.draft_id, one.target_id, one.accepted) for one in records] == [
        (0, 10, 1, 1, 1),
        (1, 11, 2, 3, 0),
    ]
    # After the root stands place 0 of the block, after the second node place 2.
    assert [(one.draft_ppm, one.cross_ppm, one.target_ppm) for one in records] == [
        (300_000, 200_000, 200_000),
        (500_000, 100_000, 300_000),
    ]


def test_a_drafter_without_probabilities_and_one_of_fewer_ids() -> None:
    silent = one_round(Proposal(torch.tensor([2])), Judged((0,), (0,)))
    assert [(one.draft_ppm, one.cross_ppm, one.target_ppm, one.overlap_ppm) for one in silent] == [
        (-1, 100_000, 500_000, -1)
    ]
    narrow = one_round(chain([1], rows=3), Judged((0,), (0,)))
    # Of three ids the draft's law is [0.5, 0.375, 0.125], and the target's first three are compared with it.
    assert [(one.draft_ppm, one.overlap_ppm) for one in narrow] == [(375_000, 800_000)]
    unknown = one_round(Proposal(torch.tensor([5]), logits=[Q[:1, :3].log()]), Judged((0,), (0,)))
    assert [(one.draft_ppm, one.cross_ppm) for one in unknown] == [(-1, 50_000)]


def test_memory_is_bounded_by_what_is_really_held() -> None:
    """Views count as what they are views of, laws and logits of the draft as well."""
    wide = torch.zeros(100, V)
    log = JudgementLog(most_bytes=2 * wide.nbytes)
    for number in range(3):
        log.keep((number, 1), Proposal(torch.tensor([0])), Judged((0,), (1,)), [0], wide[:2])
    assert log.dropped == 1
    assert [one.round_index for one in told(log)] == [0, 1]
    laws = torch.full((2, V), 1 / V)
    for proposal, held in (
        (Proposal(torch.tensor([0, 1]), laws), laws.nbytes),
        (Proposal(torch.tensor([0, 1]), logits=[laws[:1], laws[1:]]), 2 * laws.nbytes),
    ):
        own = P[:3].clone()
        for most, dropped in ((own.nbytes + held, 0), (own.nbytes + held - 1, 1)):
            log = JudgementLog(most_bytes=most)
            log.keep((0, 1), proposal, Judged((0,), (1,)), [0, 1], own)
            assert log.dropped == dropped


def test_what_is_told_of_a_run_agrees_with_it(make_llama: Any, sink: Any) -> None:
    """Ends and limits inside blocks: every record's token is the answer's, every accepted one and first rejected one
    is there, and the probabilities are those of fresh passes over the same text."""
    target, prompt = make_llama(2), kit.prompt_of(2)
    draft = kit.noisy(target, 0.04)
    free = kit.plain(target, prompt, Limits(40), sink)
    for limits in (Limits(40), Limits(23), Limits(40, frozenset({free[17]}))):
        sink.records.clear()
        log = JudgementLog()
        drafter = kit.drafting(draft, prompt, ROWS, eos_ids=limits.eos_ids)
        done = kit.play(target, drafter, prompt, limits, sink, log=log)
        records = list(log.records(1, kit.PIECES))
        rounds = sink.of(RoundRecord)
        assert sum(one.accepted for one in records) == sum(one.accepted for one in rounds)
        assert sum(not one.accepted for one in records) == sum(one.accepted < one.drafted for one in rounds)
        everything = kit.sequence(prompt, done.ids)
        own, theirs = (model(everything).logits[0].softmax(-1) for model in (target, draft))
        rejected = {
            (one.round_index, one.position): one.token_id
            for one in reversed(sink.of(TokenRecord))
            if one.origin == "rejected"
        }
        for one in records:
            at = prompt.shape[1] + one.position - 1
            assert one.target_id == done.ids[one.position]
            assert one.draft_id == (one.target_id if one.accepted else rejected[one.round_index, one.position])
            expected = (
                theirs[at, one.draft_id],
                own[at, one.draft_id],
                own[at, one.target_id],
                torch.minimum(own[at], theirs[at]).sum(),
            )
            found = (one.draft_ppm, one.cross_ppm, one.target_ppm, one.overlap_ppm)
            assert found == pytest.approx([float(chance) * 1e6 for chance in expected], abs=30)


def test_the_engine_works_them_out_when_the_run_is_over(engine, sample, monkeypatch) -> None:
    begun: list[int] = []
    original = JudgementLog.records

    def noting(self: JudgementLog, run_id: int, pieces: Sequence[str]) -> Any:
        begun.append(monotonic_ns())
        return original(self, run_id, pieces)

    monkeypatch.setattr(JudgementLog, "records", noting)
    request = RunRequest(
        "speculative", sample, ModelChoice("d"), ModelChoice("t"), GenerationSettings(max_new_tokens=10)
    )
    (run,) = runs_of(engine, request)
    assert run.judgements
    assert begun[0] >= run.info.end_ns


LOGGED_ROWS = 257
LOGGED_PIECES = [f"<{index}>" for index in range(LOGGED_ROWS)]
CPU = torch.device("cpu")


def assert_head_of(record: AlternativesRecord, logits: torch.Tensor) -> None:
    """The record says of logits [V] what a softmax in float32 does, to half a unit of float16."""
    law = logits.float().softmax(dim=-1)
    best = law.topk(min(5, len(law))).values
    assert [found.chance for found in record.listed] == pytest.approx(best.tolist(), rel=2**-10, abs=1e-6)
    for found in record.listed:
        assert found.chance == pytest.approx(float(law[found.token_id]), rel=2**-10, abs=1e-6)
        assert found.piece == LOGGED_PIECES[found.token_id]
    bits = -sum(chance * math.log2(chance) for chance in law.double().tolist() if chance)
    assert record.entropy_bits == pytest.approx(bits, abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("room", [1, 3, 64])
def test_probabilities_are_those_of_a_softmax(dtype: torch.dtype, room: int) -> None:
    """Whatever the buffer's size: one that is full is worked out and begun anew."""
    rows = (5 * torch.randn(11, LOGGED_ROWS, generator=torch.Generator().manual_seed(1))).to(dtype)
    log = AlternativesLog(CPU, LOGGED_ROWS, dtype, 11, most_bytes=room * LOGGED_ROWS * dtype.itemsize)
    choose = log.watched(greedy)
    ids = [int(choose(row[None])) for row in rows]
    assert ids == rows.argmax(dim=-1).tolist()
    records = list(log.records(3, "target", ids[:10], LOGGED_PIECES))
    assert [record.position for record in records] == list(range(10))  # the eleventh was a step beyond the end
    for record, row, token_id in zip(records, rows, ids, strict=False):
        assert record[:3] == (3, "target", -1)
        assert record.token_id == token_id == record.listed[0].token_id
        assert_head_of(record, row)


def test_logits_that_are_no_numbers_have_no_odds() -> None:
    log = AlternativesLog(CPU, 4, torch.float32, 4)
    choose = log.watched(greedy)
    choose(torch.full((1, 4), torch.nan))
    choose(torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]]))
    (record,) = log.records(1, "target", [0, 0], LOGGED_PIECES)
    assert (record.position, record.entropy_mbit) == (1, 0)
    assert [found.chance for found in record.listed] == [1, 0, 0, 0]


@pytest.mark.parametrize("who", ["model", "tree", "oracle", "adversary", "silent"])
def test_rounds_tell_what_a_pass_over_the_whole_answer_tells(make_llama: Any, sink: Any, who: str) -> None:
    target = make_llama(5)
    prompt, limits = kit.prompt_of(5), Limits(40)
    expected = kit.plain(target, prompt, limits, sink)
    parents = (-1, -1, 1, 1, 3, -1)
    drafter = {
        "model": lambda: kit.drafting(kit.noisy(target, 0.03), prompt, LOGGED_ROWS),
        "tree": lambda: drafters.tree_with_a_path(parents, [1, 3, 4], expected, LOGGED_ROWS),
        "oracle": lambda: drafters.oracle(expected),
        "adversary": lambda: drafters.adversary(expected, LOGGED_ROWS),
        "silent": drafters.silent,
    }[who]()
    sink.records.clear()
    log = AlternativesLog(CPU, LOGGED_ROWS, torch.float32, 40)
    played = kit.play(target, drafter, prompt, limits, sink, alternatives=log)
    assert played.ids == expected
    records = list(log.records(1, "target", played.ids, LOGGED_PIECES))
    own = [record for record in records if record.role == "target"]
    assert [record.token_id for record in own] == expected
    assert [record.round_index for record in own] == [
        token.round_index for token in sink.of(TokenRecord) if token.origin != "rejected"
    ]
    taught = target(input_ids=kit.sequence(prompt, expected)).logits[0, prompt.shape[1] - 1 : -1]
    for record, logits in zip(own, taught, strict=True):
        law = logits.softmax(dim=-1)
        for found in record.listed:
            assert found.chance == pytest.approx(float(law[found.token_id]), rel=0.01, abs=1e-4)
    drafted = [record for record in records if record.role == "draft"]
    tokens = [token for token in sink.of(TokenRecord) if token.origin in ("accepted", "rejected")]
    if who == "model":
        places = {(record.round_index, record.position, record.token_id) for record in drafted}
        assert places == {(token.round_index, token.position, token.token_id) for token in tokens}
        assert all(record.listed[0].token_id == record.token_id for record in drafted)  # drafted greedily
    else:
        assert drafted == []


def run_of(engine: Any, sample: Any, mode: str, settings: GenerationSettings) -> RunLog:
    return runs_of(engine, RunRequest(mode, sample, ModelChoice("d"), ModelChoice("t"), settings))[-1]


@pytest.mark.parametrize(
    ("mode", "temperature", "asked"),
    [
        ("draft", 0, {}),
        ("target", 0, {}),
        ("target", 0.8, {}),
        ("speculative", 0, {}),
        ("speculative", 0.8, {}),
        ("parallel-prefill", 0, {"hidden": 4}),
        ("parallel-prefill", 0, {"hidden": 4, "verify": "last-chunk"}),
        ("parallel-prefill", 0, {"hidden": 4, "afterwards": "rounds"}),
        ("parallel-prefill", 0.8, {"hidden": 3}),
        ("parallel-prefill", 0, {"hidden": 0}),
    ],
)
def test_every_token_of_every_mode_has_them_and_none_changes(
    engine: Any, sample: Any, mode: str, temperature: float, asked: dict[str, Any]
) -> None:
    def settings(kept: bool) -> GenerationSettings:
        return GenerationSettings(
            max_new_tokens=12,
            temperature=temperature,
            speculation=SpeculationSettings(**asked),
            alternatives=kept,
        )

    run = run_of(engine, sample, mode, settings(kept=True))
    without = run_of(engine, sample, mode, settings(kept=False))
    assert run.info.status == without.info.status == "finished"
    assert not without.alternatives
    assert [token.token_id for token in run.tokens] == [token.token_id for token in without.tokens]
    for token in run.tokens:
        record = run.alternatives_of(token)
        assert len(record.listed) == 5
        if not temperature:
            assert record.chance_of(token.token_id) == record.listed[0].chance
        if token.origin == "accepted":
            assert run.alternatives_of(token, "draft") is not None
    assert all(run.alternatives_of(token) is not None for token in run.rejected)
