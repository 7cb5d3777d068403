"""What is read off a run's columns is what its tokens say, however they came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.core.recording import RecordLog
from evprof.core.records import (
    NO_TOKEN_ID,
    ORIGIN_ACCEPTED,
    ORIGIN_BONUS,
    ORIGIN_REJECTED,
    ORIGIN_TARGET,
    TARGET,
    TokenRecord,
)
from evprof.core.run_info import RunInfo
from evprof.core.run_log import RunLog
from evprof.metrics.figures.decoding import answer_ids
from evprof.metrics.figures.kv_cache import _accepted_positions

TOKENS = st.tuples(
    st.integers(1, 2),
    st.sampled_from([5, 6, NO_TOKEN_ID]),
    st.sampled_from([ORIGIN_TARGET, ORIGIN_ACCEPTED, ORIGIN_BONUS, ORIGIN_REJECTED]),
    st.booleans(),
)


@given(st.lists(TOKENS, max_size=40))
def test_columns_and_tokens_tell_the_same_at_every_step(told: list[tuple[int, int, str, bool]]) -> None:
    log, runs = RecordLog(), {number: RunLog(RunInfo(number, 1, 0, TARGET, TARGET)) for number in (1, 2)}
    stream = log.streams["tokens"]
    for place, (number, token_id, origin, is_looked_at) in enumerate(told):
        record = TokenRecord(number, TARGET, place, token_id, origin, -1, place, " a")
        if place % 3:
            log.append(record)
            runs[number].take(stream, len(stream) - 1, len(stream))
        else:
            runs[number].absorb(record)
        for run in runs.values() if is_looked_at else ():
            _compare(run)
    for run in runs.values():
        _compare(run)


def _compare(run: RunLog) -> None:
    tokens = run.tokens
    assert run.count("tokens") == len(tokens) + len(run.rejected)
    assert run.answer_column("position").tolist() == [token.position for token in tokens]
    assert answer_ids(run) == tuple(token.known_id for token in tokens)
    for origin in (ORIGIN_TARGET, ORIGIN_ACCEPTED, ORIGIN_REJECTED):
        assert run.count_of_origin(origin) == sum(token.origin == origin for token in tokens)
    accepted = sum(token.origin == ORIGIN_ACCEPTED for token in tokens[:-1])
    assert _accepted_positions(run) == (accepted if tokens else None)
