"""What the window shows of real rounds while they come in equals what it shows of them afterwards."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest

from engines.decoder.decoding import Limits
from evprof.core.records import TokenRecord
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from ui.columns.answer import AnswerFlow

pytestmark = pytest.mark.usefixtures("without_gradients")

ROWS = 257
PARENTS = (-1, -1, 1, 1, 3, -1)


@pytest.mark.parametrize("who", ["model", "tree", "hit and miss", "guesser"])
def test_live_and_reopened_text_of_played_rounds_are_equal(
    make_llama: Any, sink: Any, played_rounds: ModuleType, scripted_drafters: ModuleType, who: str
) -> None:
    kit, target = played_rounds, make_llama(6)
    prompt, limits, chance = kit.prompt_of(6), Limits(40), random.Random(1)
    expected = kit.plain(target, prompt, limits, sink)
    drafter = {
        "model": lambda: kit.drafting(kit.noisy(target, 0.03), prompt, ROWS),
        "tree": lambda: scripted_drafters.tree_with_a_path(PARENTS, [1, 3], expected, ROWS),
        "hit and miss": lambda: scripted_drafters.hit_and_miss(expected, [True, False, True] * 20, ROWS),
        "guesser": lambda: scripted_drafters.guesser(3, ROWS),
    }[who]()
    sink.records.clear()
    kit.play(target, drafter, prompt, limits, sink)
    tokens = sink.of(TokenRecord)
    rejected = [token for token in tokens if token.origin == "rejected"]
    assert rejected
    for turn in range(40):
        run = RunLog(RunInfo(1, 1, 0, "target", "speculative"))
        live, start = AnswerFlow(run, proposals_only=bool(turn % 2)), 0
        while start < len(tokens):
            stop = start + chance.randint(1, 7)
            for token in tokens[start:stop]:
                run.absorb(token)
            live.update()
            start = stop
        reopened = AnswerFlow(run, proposals_only=bool(turn % 2))
        reopened.update()
        assert live.marks == reopened.marks
        assert sum(mark.is_rejected for mark in live.marks) == len(rejected)
