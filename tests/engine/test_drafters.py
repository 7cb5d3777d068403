"""Drafters without a model: prompt lookup, n-gram counts, token recycling, suffix automaton."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

import played_rounds
from engines.adapters.folder import save_adapter
from engines.adapters.ngram import ABSENT, BEGIN, Following, NgramCounts, load_ngram
from engines.decoder.decoding import Limits
from engines.drafters.drafter import Drafter, PromptContext, Verified
from engines.drafters.lookup_drafter import KEPT, AnswerMemory, LookupDrafter, NgramDrafter, RecyclingDrafter
from engines.drafters.suffix_drafter import MOST_TOKENS, Follower, SuffixAutomaton, SuffixDrafter
from engines.speculation.rounds import Verifier
from engines.training.example import Example
from engines.training.trainees import NgramTrainee
from evprof.core.errors import UserError
from evprof.core.records import RoundRecord
from evprof.core.vocabulary.drafters import KV, NGRAM
from evprof.loaders.adapters import AdapterInfo, read_adapter

pytestmark = pytest.mark.usefixtures("without_gradients")

CPU = torch.device("cpu")


def going() -> bool:
    return False


def looked_up(prompt: Sequence[int], answer: Sequence[int], count: int, eos: frozenset[int] = frozenset()) -> list[int]:
    drafter = LookupDrafter(CPU, eos)
    drafter.start(PromptContext(prompt))
    return drafter.propose(answer, count, going).ids.tolist()


def searched(sequence: Sequence[int], count: int) -> list[int]:
    """The same by going through everything."""
    for size in (3, 2, 1):
        if size > len(sequence):
            continue
        for start in range(len(sequence) - size - 1, -1, -1):
            if sequence[start : start + size] == sequence[-size:]:
                behind = sequence[start + size :]
                return [behind[place % len(behind)] for place in range(count)]
    return []


def test_lookup_prefers_longer_then_later_matches() -> None:
    assert looked_up([1, 2, 3, 9, 3, 7], [5, 3], 1) == [7]
    assert looked_up([1, 2, 3, 9, 3, 7], [5, 2, 3], 2) == [9, 3]
    assert looked_up([4, 5, 6, 8, 5, 6, 7], [4, 5, 6], 3) == [8, 5, 6]
    assert looked_up([1, 2, 3], [4], 5) == []
    assert looked_up([], [4], 5) == []


def test_lookup_follows_a_repetition_past_the_end_and_stops_at_the_end_of_sequence() -> None:
    assert looked_up([], [8, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert looked_up([1, 2, 3], [1], 5, frozenset({3})) == [2, 3]


@given(
    st.lists(st.integers(0, 3), max_size=12),
    st.lists(st.integers(0, 3), min_size=1, max_size=20),
    st.integers(1, 6),
    st.lists(st.integers(1, 4), max_size=10),
)
def test_lookup_finds_what_a_search_finds(prompt: list[int], answer: list[int], count: int, strides: list[int]) -> None:
    """Also when it was asked along the way, at whatever lengths of the answer."""
    drafter = LookupDrafter(CPU)
    drafter.start(PromptContext(prompt))
    length = 0
    for stride in strides:
        length = min(len(answer), length + stride)
        assert drafter.propose(answer[:length], count, going).ids.tolist() == searched(prompt + answer[:length], count)
    assert drafter.propose(answer, count, going).ids.tolist() == searched(prompt + answer, count)


def test_counts_back_off_to_shorter_contexts_and_know_beginnings() -> None:
    counts = NgramCounts.of([[1, 2, 3], [1, 2, 3], [1, 2, 4], [5, 2, 4, 4]], order=2)
    assert counts.after([1, 2]) == Following(3, 2, 3)
    assert counts.after([9, 2]) == Following(3, 2, 4)  # as often as 4: the smaller id
    assert counts.after([5]) == Following(2, 1, 1)
    assert counts.after([9]) is None
    assert counts.after([]) == Following(1, 3, 4)
    assert NgramCounts.of([[7, 8], [6, 7, 9], [6, 7, 9]], order=2).after([7]) == Following(8, 1, 1)  # begins with 7
    assert NgramCounts.of([[7, 8], [6, 7, 9], [6, 7, 9]], order=1).after([7]) == Following(9, 2, 3)


def test_a_chain_is_drafted_as_long_as_it_is_sure() -> None:
    counts = NgramCounts.of([[1, 2, 3, 4, 5]] * 9 + [[1, 2, 3, 8, 9]] * 9, order=4)
    drafter = NgramDrafter("counts", counts, CPU, frozenset({5}), least=0.6)
    assert drafter.propose([1], 10, going).ids.tolist() == [2, 3]  # half of them go on otherwise
    assert drafter.propose([1], 1, going).ids.tolist() == [2]
    eager = NgramDrafter("counts", counts, CPU, frozenset({5}), least=0.3)
    assert eager.propose([1], 10, going).ids.tolist() == [2, 3, 4, 5]
    nothing = drafter.propose([77], 10, going)
    assert (nothing.size, nothing.ids.dtype, nothing.laws) == (0, torch.long, None)


def info_in(folder: Path, **changes: Any) -> AdapterInfo:
    return replace(AdapterInfo(folder, NGRAM, "counts", "a target", None, 64, None, 257, {"order": 3}), **changes)


def saved(folder: Path, counts: NgramCounts | None = None) -> AdapterInfo:
    if counts is None:
        counts = NgramCounts.of([[1, 2, 3, 4], [1, 2, 4]], order=3)
    return save_adapter(info_in(folder, config=counts.config()), counts.tensors(), "# Counts\n")


@given(st.lists(st.lists(st.integers(0, 256), min_size=1, max_size=9), max_size=6), st.integers(1, 5))
def test_counts_survive_their_folder(tmp_path_factory, answers: list[list[int]], order: int) -> None:
    folder = tmp_path_factory.mktemp("adapters") / "counts"
    counts = NgramCounts.of(answers, order)
    saved(folder, counts)
    loaded = load_ngram(read_adapter(str(folder)))
    assert (loaded.order, len(loaded)) == (order, len(counts))
    for answer in answers:
        for end in range(len(answer) + 1):
            assert loaded.after(answer[:end]) == counts.after(answer[:end])


Tables = dict[str, torch.Tensor]


def put(name: str, place: Any, value: int) -> Callable[[Tables], None]:
    def change(tables: Tables) -> None:
        tables[name][place] = value

    return change


DAMAGES: dict[str, Callable[[Tables], object]] = {
    "an id above the vocabulary": put("following", 0, 257),
    "a negative id": put("following", 0, -1),
    "a context of no known id": put("contexts", (0, -1), 300),
    "a context below the marks": put("contexts", 0, ABSENT - 1),
    "more often than anything": put("count", 0, 1000),
    "never": put("count", 0, 0),
    "an empty context": put("contexts", 0, ABSENT),
    "a hole in a context": put("contexts", (-1, 1), ABSENT),
    "a beginning within": put("contexts", (-1, -1), BEGIN),
    "a context twice": lambda tables: tables["contexts"][1].copy_(tables["contexts"][0]),
    "wide numbers": lambda tables: tables.update(following=tables["following"].long()),
    "no numbers": lambda tables: tables.update(total=tables["total"].float()),
    "another length": lambda tables: tables.update(count=tables["count"][:-1].clone()),
    "another order": lambda tables: tables.update(contexts=torch.cat([tables["contexts"]] * 2, dim=1)),
    "one table": lambda tables: tables.update(following=tables["following"][:, None].clone()),
    "one more": lambda tables: tables.update(more=tables["total"].clone()),
    "one fewer": lambda tables: tables.__delitem__("total"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_table_is_refused_with_its_place(tmp_path: Path, name: str) -> None:
    info = saved(tmp_path / "counts")
    tensors = NgramCounts.of([[1, 2, 3, 4], [1, 2, 4]], order=3).tensors()
    assert len(load_ngram(info)) == tensors["following"].shape[0]
    DAMAGES[name](tensors)
    save_file(tensors, info.tensors_path)
    with pytest.raises(UserError, match=r"adapter\.safetensors"):
        load_ngram(info)


def test_an_adapter_of_other_kind_order_or_size_is_refused(tmp_path: Path) -> None:
    info = saved(tmp_path / "counts")
    with pytest.raises(UserError, match="of kind kv"):
        load_ngram(replace(info, kind=KV))
    for order in (0, 17, "3", None):
        with pytest.raises(UserError, match=r"config\.order"):
            load_ngram(replace(info, config={"order": order}))
    with info.tensors_path.open("r+b") as file:
        file.truncate(60 << 20)
    with pytest.raises(UserError, match="too large"):
        load_ngram(info)
    info.tensors_path.write_bytes(b"\xff" * 40)
    with pytest.raises(UserError, match="safetensors"):
        load_ngram(info)
    info.tensors_path.unlink()
    with pytest.raises(UserError, match="lacks"):
        load_ngram(info)


def example_of(answer: Sequence[int]) -> Example:
    nothing = torch.empty(0, 1)
    return Example("one", "?", torch.tensor(answer), torch.empty(0, dtype=torch.long), nothing, nothing, (0, 0))


def test_counting_is_the_whole_training() -> None:
    examples = [example_of([1, 2, 3, 4, 5])] * 9
    trainee = NgramTrainee(257)
    before = trainee.figures(examples)
    trainee.fit(examples)
    after = trainee.figures(examples)
    assert trainee.parameters() == []
    assert (before.match, after.match) == (0.0, 1.0)
    assert before.loss == pytest.approx(torch.tensor(257.0).log().item())
    assert after.loss == pytest.approx(-torch.tensor(0.9).log().item(), rel=1e-5)
    assert trainee.figures([example_of([1, 2, 9])]).match == 0.5
    assert float(trainee.loss(examples)) == pytest.approx(after.loss)


def remembering(expected: Sequence[int]) -> SuffixDrafter:
    memory: AnswerMemory[tuple[int, ...]] = AnswerMemory(MOST_TOKENS)
    memory.remember("another question", 9, tuple(expected[9:18]))
    return SuffixDrafter(CPU, memory=memory)


DRAFTERS: dict[str, Callable[[list[int]], Drafter]] = {
    "lookup": lambda _: LookupDrafter(CPU),
    "n-gram": lambda expected: NgramDrafter(
        "counts", NgramCounts.of([expected[:24], expected[24:][::-1]], order=2), CPU, least=0.2
    ),
    "suffix": remembering,
    "recycling": lambda _: RecyclingDrafter(CPU, 40),
    "recycling, narrow tree": lambda _: RecyclingDrafter(CPU, 40, widths=(3, 2)),
    "recycling, wide tree": lambda _: RecyclingDrafter(CPU, 40, widths=(9, 1, 1)),
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", DRAFTERS)
def test_drafting_without_a_model_is_lossless(make_llama, sink, name: str, temperature: float) -> None:
    """Greedy answers stay as they are; sampled ones leave clean caches. All outcomes of rounds occur."""
    outcomes: set[str] = set()
    for seed in range(6):
        target = make_llama(seed, vocabulary=40, std=0.35)
        prompt = played_rounds.prompt_of(seed, vocabulary=40)
        generator = torch.Generator().manual_seed(seed)
        verifier = Verifier(partial(torch.softmax, dim=-1), generator) if temperature else Verifier()
        expected = played_rounds.plain(target, prompt, Limits(48), sink)
        sink.records.clear()
        drafter = DRAFTERS[name](expected)
        played = played_rounds.play(target, drafter, prompt, Limits(48), sink, gamma=4, verifier=verifier)
        assert temperature or played.ids == expected
        behind = played_rounds.sequence(prompt, played.ids[:-1])
        played_rounds.assert_cache_is_fresh(played.target, target, behind)
        for one in sink.of(RoundRecord):
            outcomes.add("nothing" if not one.drafted else "some" if one.accepted else "none")
    assert outcomes == {"nothing", "some", "none"}


def test_counts_of_the_answer_itself_are_accepted_whole(make_llama: Any, sink: Any) -> None:
    target, prompt = make_llama(4, vocabulary=2000), played_rounds.prompt_of(4)
    expected = played_rounds.plain(target, prompt, Limits(41), sink)
    drafter = NgramDrafter("counts", NgramCounts.of([expected] * 50, order=8), CPU)
    sink.records.clear()
    played = played_rounds.play(target, drafter, prompt, Limits(41), sink, gamma=9)
    assert played.ids == expected
    assert [one.accepted for one in sink.of(RoundRecord)] == [9, 9, 9, 9]


ROWS = 12


def thinking(*orders: Sequence[int]) -> torch.Tensor:
    """Logits [n, ROWS] that rank some tokens in this order, all others below."""
    logits = torch.full((len(orders), ROWS), -9.0)
    for row, order in enumerate(orders):
        for rank, token in enumerate(order):
            logits[row, token] = 9.0 - rank
    return logits


def test_a_chain_follows_the_likeliest_and_ends_after_what_is_new() -> None:
    drafter = RecyclingDrafter(CPU, ROWS)
    assert drafter.propose([3], 4, going).size == 0
    drafter.observe([3, 5], Verified((0,), block=(3,), logits=thinking([5, 6])))
    assert drafter.propose([3], 4, going).ids.tolist() == [5]
    drafter.observe([3, 5, 3], Verified((0,), block=(5,), logits=thinking([3, 7])))
    assert drafter.propose([3], 4, going).ids.tolist() == [5, 3, 5, 3]
    assert drafter.propose([3], 1, going).parents is None


def test_a_tree_takes_the_likeliest_of_each_on_every_level() -> None:
    drafter = RecyclingDrafter(CPU, ROWS, widths=(2, 2))
    drafter.observe([1], Verified((0,), block=(1, 2, 3), logits=thinking([2, 3], [4, 5], [6, 7])))
    tree = drafter.propose([1], 5, going)
    assert (tree.ids.tolist(), tree.parents) == ([2, 3, 4, 5, 6, 7], (-1, -1, 0, 0, 1, 1))
    first = drafter.propose([1], 1, going)
    assert (first.ids.tolist(), first.parents) == ([2, 3], (-1, -1))


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 99)),
        min_size=1,
        max_size=6,
    )
)
def test_the_table_is_what_the_target_thought_last(rounds: list[tuple[list[int], int, int]]) -> None:
    """Held against a dictionary that is filled place by place."""
    drafter, known = RecyclingDrafter(CPU, ROWS, widths=(KEPT,)), dict[int, list[int]]()
    for block, accepted, seed in rounds:
        logits = torch.randn(len(block), ROWS, generator=torch.Generator().manual_seed(seed))
        path = range(min(accepted + 1, len(block)))
        drafter.observe([0], Verified(path, block=block, logits=logits))
        for place in [*range(len(block)), *path]:
            known[block[place]] = logits[place].topk(KEPT).indices.tolist()
    for token in range(ROWS):
        assert drafter.propose([token], 1, going).ids.tolist() == known.get(token, [])


SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=14), min_size=1, max_size=5)


def longest_match(sequences: Sequence[Sequence[int]], count: int) -> list[Follower]:
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
    assert SuffixAutomaton(sequences).chain(count) == longest_match(sequences, count)


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
