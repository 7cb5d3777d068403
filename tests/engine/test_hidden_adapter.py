"""The hidden-state adapter: lossless however badly it drafts, the target's head at its end, teachable, checked."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from closeness import assert_close, is_close
from engines.adapters.folder import save_adapter
from engines.adapters.hidden_states import AdaptedDecoder, HiddenAdapter, HiddenSizes, load_hidden
from engines.decoder.decoding import CachedModel, Limits, decode
from engines.decoder.llama import LlamaDecoder
from engines.decoder.sampling import greedy
from engines.drafters.drafter import PromptContext
from engines.drafters.model_drafter import HiddenDrafter
from engines.measuring.timing import StageClock
from engines.speculation.draft_length import DraftLength
from engines.speculation.rounds import Rounds
from engines.speculation.verification import Verifier
from engines.tokens.answer import Answer
from engines.tokens.vocabulary_alignment import Alignment, first_shared
from evprof.core.errors import UserError
from evprof.core.messages import RunDescribed, RunEnded
from evprof.core.records import RoundRecord, TokenRecord
from evprof.core.request import RunRequest
from evprof.core.vocabulary.drafters import HIDDEN
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.modes import PARALLEL_PREFILL, SPECULATIVE
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, read_adapter

NEVER = threading.Event()
PIECES = [f"<{index}>" for index in range(300)]
SIZES = HiddenSizes(32, 64, 24, 2, 8)
TARGET_ROWS, DRAFT_ROWS = 257, 250


@pytest.fixture(scope="module")
def pair(make_llama: Any) -> SimpleNamespace:
    draft = LlamaDecoder.take_over(make_llama(1, hidden=32, vocabulary=DRAFT_ROWS))
    target = LlamaDecoder.take_over(make_llama(2, layers=3, hidden=64, vocabulary=TARGET_ROWS))
    return SimpleNamespace(draft=draft, target=target)


def adapter(seed: int = 0, sizes: HiddenSizes = SIZES, std: float = 0.3) -> HiddenAdapter:
    """With random weights everywhere."""
    torch.manual_seed(seed)
    made = HiddenAdapter(sizes).requires_grad_(False)
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=std)
    return made


def visual(seed: int = 5) -> torch.Tensor:
    return torch.randn(6, 64, generator=torch.Generator().manual_seed(seed))


def drafter_of(pair: SimpleNamespace, made: HiddenAdapter, alignment: Alignment | None = None) -> HiddenDrafter:
    cached = CachedModel.over(pair.draft, "draft")
    decoder = AdaptedDecoder(pair.draft, pair.target, made)
    drafter = HiddenDrafter(
        "a draft", cached, decoder, alignment or first_shared(DRAFT_ROWS), frozenset(), target_rows=TARGET_ROWS
    )
    cached.prefill(pair.draft.embed(torch.arange(7)[None]), NEVER)
    return drafter


def prefilled(pair: SimpleNamespace, seed: int, sink: Any) -> tuple[CachedModel, Answer, torch.Tensor]:
    cached = CachedModel.over(pair.target, "target")
    prompt = torch.randint(0, DRAFT_ROWS, (1, 9), generator=torch.Generator().manual_seed(seed))
    first = greedy(cached.prefill(pair.target.embed(prompt), NEVER))
    answer = Answer(sink, 1, "target", PIECES)
    answer.add(int(first))
    return cached, answer, first


@pytest.mark.usefixtures("without_gradients")
@pytest.mark.parametrize("heads", [0, 2])
def test_rounds_stay_lossless_with_an_untrained_adapter(pair: SimpleNamespace, sink: Any, heads: int) -> None:
    for seed in range(8):
        cached, answer, first = prefilled(pair, seed, sink)
        clock = StageClock(sink, 1)
        decode(cached, first, answer, Limits(32), sampler=greedy, clock=clock, stop=NEVER)
        drafter = drafter_of(pair, adapter(seed, replace(SIZES, heads=heads)))
        again, found, _ = prefilled(pair, seed, sink)
        with clock.stage("decode", "target"):
            Rounds(
                again,
                drafter,
                found,
                Limits(32),
                length=DraftLength(3),
                verifier=Verifier(),
                clock=clock,
                stop=NEVER,
                context=PromptContext(visual=visual()),
            ).run()
        assert found.ids == answer.ids
        assert drafter.model.length == drafter.model.prompt_length + 31


@pytest.mark.usefixtures("without_gradients")
def test_what_the_target_sees_changes_what_is_drafted(pair: SimpleNamespace) -> None:
    decoder = AdaptedDecoder(pair.draft, pair.target, adapter())
    hidden = torch.randn(1, 4, 32)
    blind = decoder.head(hidden)
    decoder.look(visual(1))
    first = decoder.head(hidden)
    decoder.look(visual(2))
    second = decoder.head(hidden)
    assert not is_close(blind, first)
    assert not is_close(first, second)
    without = AdaptedDecoder(pair.draft, pair.target, adapter(sizes=replace(SIZES, heads=0)))
    before = without.head(hidden)
    without.look(visual(1))
    assert_close(without.head(hidden), before)


@pytest.mark.usefixtures("without_gradients")
def test_only_ids_the_draft_can_be_fed_are_proposed(pair: SimpleNamespace) -> None:
    """Of a prefix the first ones; of tables those that meet one of the draft's."""
    drafter = drafter_of(pair, adapter())
    assert drafter.heard(torch.zeros(1, TARGET_ROWS)).shape == (1, DRAFT_ROWS)
    to_draft = [0] * TARGET_ROWS
    to_target = [-1] * DRAFT_ROWS
    for own, other in ((3, 200), (7, 11)):
        to_draft[other], to_target[own] = own, other
    drafter = drafter_of(pair, adapter(), Alignment(to_draft, to_target, 2, is_prefix=False))
    heard = drafter.heard(torch.zeros(1, TARGET_ROWS))
    assert heard.isfinite().nonzero()[:, 1].tolist() == [11, 200]
    proposal = drafter.propose([11], 4, NEVER.is_set)
    assert set(proposal.ids.tolist()) <= {11, 200}


def saved(folder: Path, made: HiddenAdapter, rows: int = TARGET_ROWS) -> AdapterInfo:
    sizes = made.sizes
    info = AdapterInfo(
        folder, HIDDEN, "an-adapter", "the-target", "the-draft", sizes.target, sizes.draft, rows, sizes.config()
    )
    return save_adapter(info, made.state_dict(), "# An adapter\n")


@pytest.mark.usefixtures("without_gradients")
def test_a_saved_adapter_comes_back_the_same(pair: SimpleNamespace, tmp_path: Path) -> None:
    made = adapter(4)
    saved(tmp_path / "a", made)
    loaded = load_hidden(read_adapter(str(tmp_path / "a")), pair.draft, pair.target)
    direct = AdaptedDecoder(pair.draft, pair.target, made)
    hidden = torch.randn(1, 4, 32)
    for decoder in (loaded, direct):
        decoder.look(visual())
    torch.testing.assert_close(loaded.head(hidden), direct.head(hidden), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "lora"}, "of kind lora; drafter hidden needs one of kind hidden"),
        ({"hidden_size": 65}, "hidden size 65"),
        ({"vocabulary": 99}, "vocabulary 99"),
        ({"draft_hidden_size": 31}, "hidden size 31"),
        ({"config": {"bottleneck": 24, "heads": 2}}, "config.head_dim"),
        ({"config": {"bottleneck": 24, "heads": 2, "head_dim": 0}}, "head_dim must be at least 1"),
        ({"config": {"bottleneck": 1 << 20, "heads": 2, "head_dim": 8}}, "is needed"),
        ({"config": {"bottleneck": 24, "heads": 0, "head_dim": 8}}, "no part of it"),
    ],
)
def test_what_does_not_fit_is_refused(pair: SimpleNamespace, tmp_path: Path, changes: Any, said: str) -> None:
    good = saved(tmp_path / "a", adapter())
    with pytest.raises(UserError, match=said):
        load_hidden(replace(good, **changes), pair.draft, pair.target)


@pytest.mark.parametrize("mode", [SPECULATIVE, PARALLEL_PREFILL])
def test_a_run_answers_as_the_target_alone(
    engine: Any, tiny_models: Any, sample: Any, sink: Any, *, tmp_path: Path, mode: str
) -> None:
    target = tiny_models(None, "target", lambda *_: None, NEVER).language_model
    saved(tmp_path / "a", adapter(sizes=HiddenSizes(32, 32, 8, 2, 4)), target.rows)
    settings = GenerationSettings(max_new_tokens=14, ignore_eos=True)
    asked = replace(settings, speculation=SpeculationSettings(HIDDEN, str(tmp_path / "a"), afterwards="rounds"))
    plain = RunRequest("target", sample, None, ModelChoice("t", "cpu"), settings)
    engine.run(plain, sink, NEVER)
    engine.run(
        RunRequest(mode, sample, ModelChoice("d", "cpu"), ModelChoice("t", "cpu"), asked, first_run_id=2), sink, NEVER
    )
    assert [message.status for message in sink.messages if isinstance(message, RunEnded)] == ["finished"] * 2
    said = [
        [record.token_id for record in sink.of(TokenRecord) if record.run_id == run and record.origin != "rejected"]
        for run in (1, 2)
    ]
    assert said[0] == said[1]
    assert len(sink.of(RoundRecord)) >= 1
    facts = next(
        message.facts["speculation"]
        for message in sink.messages
        if isinstance(message, RunDescribed) and "speculation" in message.facts
    )
    assert (facts.kind, facts.adapter, facts.is_lossless) == (HIDDEN, "an-adapter", True)
