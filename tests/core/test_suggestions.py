"""The nearest name to one that nobody knows."""

from __future__ import annotations

import pytest

from evprof.core.texts import did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("engin", ["engine", "events"], "engine"),
        ("ENGINE", ["engine"], "engine"),
        ("parallel", ["parallel-prefill", "draft"], "parallel-prefill"),
        ("random:7b-eventgtp", ["random:7b-eventgpt", "random:7b-llava"], "random:7b-eventgpt"),
        ("zzz", ["engine"], None),
        ("x", ["xerxes"], None),
        ("a" * 10_000, ["a" * 10_000], None),
        (8, [4, 8], "8"),
    ],
)
def test_nearest(word, known, found) -> None:
    assert nearest(word, known) == found


def test_a_sentence_ends_with_it_or_with_nothing() -> None:
    assert did_you_mean("engin", ["engine"]) == "; did you mean engine?"
    assert did_you_mean("zzz", ["engine"]) == ""
