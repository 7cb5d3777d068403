"""An option that was typed and changes nothing is told with its reason; the command goes on."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--mode", "target", "--gamma", "3"), ["--gamma changes nothing here: Only speculative modes draft."]),
        (("--mode", "target", "--top-k", "3"), ["--top-k changes nothing here: Nothing is drawn at temperature 0."]),
        (("--mode", "target", "--top-k", "3", "--temperature", "1"), []),
        (("--mode", "speculative", "--gamma", "3"), []),
        (("--mode", "target", "--gamma", "5"), ["--gamma changes nothing here: Only speculative modes draft."]),
    ],
)
@pytest.mark.usefixtures("scripted")
def test_an_option_without_effect_is_told(evprof: Any, words: tuple[str, ...], told: list[str]) -> None:
    found = evprof("run", *words, "-q")
    assert found.code == 0, found.errors
    assert [line for line in found.errors.splitlines() if "changes nothing" in line] == told


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(("word", "kind"), [("1e5", "--max-new-tokens"), ("two", "--repeat")])
def test_what_is_no_number_is_said_in_words(evprof: Any, word: str, kind: str) -> None:
    found = evprof("run", kind, word)
    assert found.code == 2
    assert found.errors == f"evprof: {kind}: must be a whole number, not '{word}'; see evprof run --help.\n"


def test_no_answer_is_longer_than_any_model_reads(evprof: Any) -> None:
    found = evprof("run", "--max-new-tokens", "9" * 20)
    assert found.code == 2
    assert found.errors == f"evprof: --max-new-tokens must lie from 1 to 1,000,000, not {'9' * 20}.\n"
