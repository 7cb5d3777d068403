"""The suffix automaton finds what going through everything finds, in bounded memory, and changes no answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engines.decoder.decoding import Limits
from engines.drafters.drafter import PromptContext
from engines.drafters.lookup_drafter import AnswerMemory
from engines.drafters.suffix_drafter import MOST_TOKENS, Follower, SuffixAutomaton, SuffixDrafter
from engines.speculation.verification import Verifier
from evprof.core.records import RoundRecord

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")
SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=14), min_size=1, max_size=5)


def going() -> bool:
    return False


def searched(sequences: Sequence[Sequence[int]], count: int) -> list[Follower]:
    """The same by going through everything, the sequences in the order they were told."""
    text, found = list(sequences[-1]), list[Follower]()
    while len(found) < count:
        follower = likeliest(sequences, text)
        if follower is None:
            break
        found.append(follower)
        text.append(follower.token)
    return found


def likeliest(sequences: Sequence[Sequence[int]], text: list[int]) -> Follower | None:
    for size in range(len(text), 0, -1):
        suffix, ends, counts = text[-size:], dict[int, int](), dict[int, int]()
        time = 0
        for sequence in sequences:
            for end, token in enumerate(sequence):
                time += 1
                if end >= size and list(sequence[end - size : end]) == suffix:
                    counts[token] = counts.get(token, 0) + 1
                    ends[token] = time
        if counts:
            token = max(counts, key=lambda one: (counts[one], ends[one]))
            return Follower(token, counts[token], sum(counts.values()))
    return None


@given(SEQUENCES, st.integers(1, 6))
def test_it_finds_what_a_search_finds(sequences: list[list[int]], count: int) -> None:
    assert SuffixAutomaton(sequences).chain(count) == searched(sequences, count)


def test_the_longest_match_decides_then_the_commonest_then_the_latest() -> None:
    def after(*sequences: list[int]) -> list[int]:
        return [one.token for one in SuffixAutomaton(sequences).chain(1)]

    assert after([1, 2, 7], [2, 8], [2, 8], [1, 2]) == [7]
    assert after([2, 7], [2, 8], [2, 8], [2]) == [8]
    assert after([2, 8], [2, 7], [2]) == [7]
    assert after([1], [2, 3], [9]) == []
    assert after([5, 2], [3], [2]) == []  # no match reaches into the next sequence


def drafted(drafter: SuffixDrafter, prompt: Sequence[int], answer: Sequence[int], count: int) -> list[int]:
    drafter.start(PromptContext(prompt))
    return drafter.propose(answer, count, going).ids.tolist()


def test_it_stops_where_it_is_unsure_and_at_the_end_of_sequence() -> None:
    assert drafted(SuffixDrafter(CPU), [1, 2, 3, 4], [1, 2], 8) == [3, 4, 1, 2, 3, 4, 1, 2]
    assert drafted(SuffixDrafter(CPU, frozenset({4})), [1, 2, 3, 4, 5], [1, 2], 8) == [3, 4]
    unsure = [token for number in range(10, 20) for token in (1, number)]
    assert drafted(SuffixDrafter(CPU), unsure, [1], 3) == []  # one of ten


def test_earlier_answers_to_other_questions_are_drafted_from() -> None:
    memory: AnswerMemory[tuple[int, ...]] = AnswerMemory(100)

    def asked(about: str, answer: Sequence[int]) -> list[int]:
        drafter = SuffixDrafter(CPU, memory=memory, about=about)
        proposed = drafted(drafter, [50, 51], answer[:1], 3)
        drafter.finish(answer)
        return proposed

    assert asked("a bus", [1, 2, 3, 4]) == []
    assert asked("a bus", [1, 2, 3, 4]) == []  # repeats are not drafted from themselves
    assert asked("a car", [1, 2, 5]) == [2, 3, 4]
    assert asked("a bus", [1, 2, 3, 4]) == [2, 5]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=20))
def test_memory_keeps_the_latest_within_its_bound(given_answers: list[tuple[int, int]]) -> None:
    memory: AnswerMemory[int] = AnswerMemory(60)
    latest: dict[int, tuple[int, int]] = {}
    for number, (about, size) in enumerate(given_answers):
        memory.remember(about, size, number)
        latest.pop(about, None)
        latest[about] = size, number
        assert memory.tokens <= 60
        while sum(size for size, _ in latest.values()) > 60:
            del latest[next(iter(latest))]
    assert memory.others(None) == [number for _, number in latest.values()]
    assert memory.others(2) == [number for about, (_, number) in latest.items() if about != 2]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_it_is_lossless(make_llama: Any, sink: Any, played_rounds: ModuleType, temperature: float) -> None:
    """Greedy answers stay as they are; drawn ones leave clean caches. All outcomes of rounds occur."""
    outcomes: set[str] = set()
    for seed in range(6):
        target = make_llama(seed, vocabulary=40, std=0.35)
        prompt = played_rounds.prompt_of(seed, vocabulary=40)
        verifier = Verifier()
        if temperature:
            verifier = Verifier(partial(torch.softmax, dim=-1), torch.Generator().manual_seed(seed))
        expected = played_rounds.plain(target, prompt, Limits(48), sink)
        memory: AnswerMemory[tuple[int, ...]] = AnswerMemory(MOST_TOKENS)
        memory.remember("another question", 9, tuple(expected[9:18]))
        sink.records.clear()
        drafter = SuffixDrafter(CPU, memory=memory)
        played = played_rounds.play(target, drafter, prompt, Limits(48), sink, gamma=4, verifier=verifier)
        assert temperature or played.ids == expected
        behind = played_rounds.sequence(prompt, played.ids[:-1])
        played_rounds.assert_cache_is_fresh(played.target, target, behind)
        for one in sink.of(RoundRecord):
            outcomes.add("nothing" if not one.drafted else "all" if one.accepted == one.drafted else "some")
            outcomes |= {"none"} if one.drafted and not one.accepted else set()
    assert {"nothing", "all", "some", "none"} <= outcomes
