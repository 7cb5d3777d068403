"""Which number of drafted tokens is best: told with an interval where rounds and runs are enough, else not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from evprof.core.run_info import SpeculationFacts, Turn
from evprof.core.run_log import RunLog
from evprof.metrics.speculation.break_even import FEWEST_ROUNDS
from evprof.metrics.speculation.verdicts import speculation_document
from evprof.metrics.speculation.widths import fastest, measured_widths
from told import told

STEP = 10.0
WOBBLE = (1.0, 1.03, 0.97, 1.02, 0.98)


def plain(make: Callable, run_id: int, tokens: int = 41) -> RunLog:
    """Decoding at 10 ms a token, give or take."""
    facts = {"environment": {"engine_session": "one"}, "turn": Turn("series", run_id % 5, 1)}
    run = make(run_id).begin(group_id=1, repeat=run_id, setup={}, **facts)
    step = STEP * WOBBLE[run_id % 5]
    run.span("decode", 0, step * (tokens - 1))
    for place in range(tokens):
        run.token(place, step * place)
    return run.end(step * (tokens - 1))


def drafted(
    make: Callable, run_id: int, *, gamma: int = 4, accepted: Sequence[int] = (1,) * 12, round_ms: float = 18.0
) -> RunLog:
    """Rounds of `gamma` drafts, of which so many stood, each taking so long."""
    run = make(run_id, mode="speculative").begin(
        group_id=run_id,
        setup={},
        speculation=SpeculationFacts("draft", "model"),
        environment={"engine_session": "one"},
        turn=Turn("series", run_id % 5, 0),
        **told({"max_new_tokens": 16, "temperature": 0.0, "gamma": gamma}),
    )
    spent, place = round_ms * WOBBLE[run_id % 5], 1
    run.token(0, 0)
    for index, count in enumerate(accepted):
        run.round(index * spent, spent / 2, spent / 2, drafted=gamma, accepted=count, emitted=count + 1)
        for _ in range(count + 1):
            run.token(place, (index + 1) * spent, "target")
            place += 1
    run.span("decode", 0, spent * len(accepted))
    return run.end(spent * len(accepted))


@pytest.fixture
def runs(script: Callable) -> list[RunLog]:
    return [plain(script, number) for number in range(1, 6)]


def test_a_width_is_told_by_its_own_rounds(script: Callable, runs: list[RunLog]) -> None:
    """Two tokens for 18 ms are 1.11 times as fast as plain; at twice the width five tokens for 60 ms are slower."""
    four = [drafted(script, number) for number in range(11, 16)]
    eight = [drafted(script, number, gamma=8, accepted=(4,) * 12, round_ms=60.0) for number in range(21, 26)]
    found = measured_widths(four[0], [*runs, *four, *eight])
    assert [(width.gamma, width.rounds, width.speed.counts[0]) for width in found] == [(4, 60, 5), (8, 60, 5)]
    assert [width.speed.ratio for width in found] == pytest.approx([2 * STEP / 18, 5 * STEP / 60], rel=0.01)
    top = fastest(found)
    assert top.gamma == 4
    document = speculation_document(four[0], [*runs, *four, *eight])
    assert (document["prediction"]["best_gamma"], document["prediction"]["best_rounds"]) == (4, 60)


@pytest.mark.parametrize(("count", "rounds"), [(2, 40), (3, FEWEST_ROUNDS // 3 - 1), (1, 100)])
def test_too_few_rounds_or_runs_say_nothing(script: Callable, runs: list[RunLog], count: int, rounds: int) -> None:
    few = [drafted(script, 11 + number, accepted=(1,) * rounds) for number in range(count)]
    assert measured_widths(few[0], [*runs, *few]) == []
    document = speculation_document(few[0], [*runs, *few])
    prediction = document["prediction"] or {}
    assert (prediction.get("best_gamma"), prediction.get("best_speedup")) == (None, None)
