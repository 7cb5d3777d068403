"""The likeliest tokens in every token's place: those of a softmax of the same logits, and never another answer."""

from __future__ import annotations

import math
from threading import Event
from types import ModuleType
from typing import Any

import pytest
import torch

from engines.decoder.decoding import Limits
from engines.decoder.sampling import greedy
from engines.tokens.alternatives import AlternativesLog
from evprof.core.recording import RecordLog
from evprof.core.records import AlternativesRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.run_book import RunBook
from evprof.core.run_log import RunLog
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.speculation import SpeculationSettings

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS = 257
PIECES = [f"<{index}>" for index in range(ROWS)]
CPU = torch.device("cpu")


def assert_head_of(record: AlternativesRecord, logits: torch.Tensor) -> None:
    """The record says of logits [V] what a softmax in float32 does, to half a unit of float16."""
    law = logits.float().softmax(dim=-1)
    best = law.topk(min(5, len(law))).values
    assert [found.chance for found in record.listed] == pytest.approx(best.tolist(), rel=2**-10, abs=1e-6)
    for found in record.listed:
        assert found.chance == pytest.approx(float(law[found.token_id]), rel=2**-10, abs=1e-6)
        assert found.piece == PIECES[found.token_id]
    bits = -sum(chance * math.log2(chance) for chance in law.double().tolist() if chance)
    assert record.entropy_bits == pytest.approx(bits, abs=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("room", [1, 3, 64])
def test_probabilities_are_those_of_a_softmax(dtype: torch.dtype, room: int) -> None:
    """Whatever the buffer's size: one that is full is worked out and begun anew."""
    rows = (5 * torch.randn(11, ROWS, generator=torch.Generator().manual_seed(1))).to(dtype)
    log = AlternativesLog(CPU, ROWS, dtype, 11, most_bytes=room * ROWS * dtype.itemsize)
    choose = log.watched(greedy)
    ids = [int(choose(row[None])) for row in rows]
    assert ids == rows.argmax(dim=-1).tolist()
    records = list(log.records(3, "target", ids[:10], PIECES))
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
    (record,) = log.records(1, "target", [0, 0], PIECES)
    assert (record.position, record.entropy_mbit) == (1, 0)
    assert [found.chance for found in record.listed] == [1, 0, 0, 0]


@pytest.mark.parametrize("who", ["model", "tree", "oracle", "adversary", "silent"])
def test_rounds_tell_what_a_pass_over_the_whole_answer_tells(
    make_llama: Any, sink: Any, played_rounds: ModuleType, scripted_drafters: ModuleType, who: str
) -> None:
    kit, target = played_rounds, make_llama(5)
    prompt, limits = kit.prompt_of(5), Limits(40)
    expected = kit.plain(target, prompt, limits, sink)
    parents = (-1, -1, 1, 1, 3, -1)
    drafter = {
        "model": lambda: kit.drafting(kit.noisy(target, 0.03), prompt, ROWS),
        "tree": lambda: scripted_drafters.tree_with_a_path(parents, [1, 3, 4], expected, ROWS),
        "oracle": lambda: scripted_drafters.oracle(expected),
        "adversary": lambda: scripted_drafters.adversary(expected, ROWS),
        "silent": scripted_drafters.silent,
    }[who]()
    sink.records.clear()
    log = AlternativesLog(CPU, ROWS, torch.float32, 40)
    played = kit.play(target, drafter, prompt, limits, sink, alternatives=log)
    assert played.ids == expected
    records = list(log.records(1, "target", played.ids, PIECES))
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
    recording = RecordLog()
    engine.run(RunRequest(mode, sample, ModelChoice("d"), ModelChoice("t"), settings), recording, Event())
    book = RunBook(recording)
    book.update()
    return list(book.runs.values())[-1]


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
        assert record is not None
        assert len(record.listed) == 5
        if not temperature:
            assert record.chance_of(token.token_id) == record.listed[0].chance
        if token.origin == "accepted":
            assert run.alternatives_of(token, "draft") is not None
    assert all(run.alternatives_of(token) is not None for token in run.rejected)
