"""Finding by what was typed: every word must be there, and better places come first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evprof.view.labels import match

WORDS = st.lists(st.sampled_from(["run", "runs", "open", "session", "prefill", "γ"]), min_size=1, max_size=4)


@given(words=WORDS, query=WORDS)
def test_what_is_found_holds_every_word_that_was_typed(words: list[str], query: list[str]) -> None:
    text = " ".join(words)
    found = match(" ".join(query), text)
    assert (found is not None) == all(part in text for part in query)


@given(words=WORDS)
def test_a_whole_word_beats_a_beginning_beats_letters_inside(words: list[str]) -> None:
    text = " ".join(words)
    parts = (words[0], words[0][:-1] or words[0], words[0][1:] or words[0])
    scores = [score for part in parts if (score := match(part, text)) is not None]
    assert len(scores) == 3
    assert scores[0] == max(scores)


def test_case_does_not_matter_and_shorter_titles_come_first() -> None:
    assert match("OPEN", "Open session") == match("open", "Open session")
    short, long = match("open", "Open session"), match("open", "Open session of another window")
    assert short is not None
    assert long is not None
    assert short > long
    assert match("", "anything") == 0.0
    assert match("compare all", "Compare") is None
