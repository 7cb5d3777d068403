"""Training sees what the shipped model will see: packed questions, pooling, checkpoints that give the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentencepiece import SentencePieceProcessor

from bundled_pair import tokenizer
from bundled_pair.assembly import EventReader, VideoReader, event_tower, video_tower
from bundled_pair.attributes import EVENT_VISIBLE, VIDEO_VISIBLE
from bundled_pair.conversations import IGNORED, Conversations, attributes_of
from bundled_pair.dataset import event_pixels, training_scene, video_pixels
from bundled_pair.export import export_eventgpt, export_video_llava
from bundled_pair.held_out import Witness, load, write_scenes
from bundled_pair.language_training import fold_standardisation
from bundled_pair.tower_training import features, normalise
from bundled_pair.training import QUESTION_TOKENS
from closeness import assert_close
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily
from evprof.core.records import DRAFT, TARGET

LABELS = np.array([[0, 1, 2, 0, 1, 3, 2, 1], [2, 3, 0, 1, 0, 0, 0, 0]])


@pytest.fixture(scope="module")
def processor(tiny_vocabulary: bytes) -> SentencePieceProcessor:
    return tokenizer.load(tiny_vocabulary)


@pytest.fixture
def talk(processor: SentencePieceProcessor) -> Conversations:
    return Conversations(processor.encode, EVENTGPT_V1, EVENT_VISIBLE, length=200)


@torch.no_grad()
def test_a_question_packed_with_others_reads_as_if_asked_alone(talk: Conversations) -> None:
    torch.manual_seed(1)
    reader = EventReader().eval()
    decoder = reader.decoder
    embed = decoder.get_input_embeddings()
    packed = talk.draw(LABELS[:1], np.random.default_rng(2))
    prefix = torch.cat([embed(torch.tensor(talk.before)), torch.randn(70, 128)])[None]
    length = prefix.shape[1]
    together = decoder.model(
        inputs_embeds=torch.cat([prefix, embed(packed.tokens)], dim=1),
        attention_mask=packed.mask(length),
        position_ids=packed.positions(torch.arange(length), length),
    ).last_hidden_state[:, length:]
    turns = int(packed.turn.max()) + 1
    assert turns >= 3
    for turn in range(turns):
        places = (packed.turn[0] == turn).nonzero().flatten()
        line = torch.cat([prefix, embed(packed.tokens[:, places])], dim=1)
        alone = decoder.model(inputs_embeds=line).last_hidden_state[:, length:]
        assert_close(alone, together[:, places])


def test_targets_are_the_answers_and_their_end(talk: Conversations, processor: SentencePieceProcessor) -> None:
    packed = talk.draw(LABELS, np.random.default_rng(3))
    answers = list(packed.answers())
    assert len(answers) == int((packed.turn.max(dim=1).values + 1).sum())
    assert all(ids[-1] == tokenizer.EOS_ID and tokenizer.EOS_ID not in ids[:-1] for ids in answers)
    expected = talk.turns(attributes_of(LABELS[0]), np.random.default_rng(3))
    for ids, (_, reply) in zip(answers[: int(packed.turn[0].max()) + 1], expected, strict=False):
        assert processor.decode(list(ids[:-1])) == reply
    # A target is always the token that stands right after it.
    places = (packed.targets[0, :-1] != IGNORED).nonzero().flatten()
    inside = [place for place in places.tolist() if packed.targets[0, place] != tokenizer.EOS_ID]
    assert all(packed.targets[0, place] == packed.tokens[0, place + 1] for place in inside)


def test_no_two_steps_teach_the_same_answers(talk: Conversations) -> None:
    rng = np.random.default_rng(4)
    first, second = (set(talk.draw(LABELS, rng).answers()) for _ in range(2))
    assert first
    assert len(first & second) <= 1


@torch.no_grad()
def test_a_video_reader_grows_without_a_change(talk: Conversations) -> None:
    torch.manual_seed(8)
    reader = VideoReader().eval()
    line = torch.randn(1, 9, 128)
    reader.shrink()
    small = reader.decoder.model(inputs_embeds=line).last_hidden_state
    assert len(reader.decoder.model.layers) < len(VideoReader().decoder.model.layers)
    reader.grow()
    assert_close(small, reader.decoder.model(inputs_embeds=line).last_hidden_state)
    assert set(reader.state_dict()) == set(VideoReader().state_dict())
    places = reader.some_places(296, np.random.default_rng(1))
    assert places.shape == (74,)
    assert places.unique().shape == (74,)


@torch.no_grad()
def test_an_exported_event_model_sees_what_was_trained(tmp_path: Path, tiny_vocabulary: bytes) -> None:
    torch.manual_seed(5)
    tower, reader, scene = event_tower().eval(), EventReader().eval(), training_scene(3, 0)
    round_to_bf16(tower, reader)
    export_eventgpt(tmp_path / "model", tower, reader, tiny_vocabulary)
    seen = tower(normalise(event_pixels(scene))).last_hidden_state
    samples = write_scenes(tmp_path, [scene], workers=1)
    witness = Witness(load(tmp_path / "model", DRAFT), DRAFT, samples)
    assert_close(witness.visual, reader.visual_embeddings(seen[None]))


@torch.no_grad()
def test_an_exported_video_model_sees_what_was_trained(tmp_path: Path, tiny_vocabulary: bytes) -> None:
    torch.manual_seed(6)
    tower, reader, scene = video_tower().eval(), VideoReader().eval(), training_scene(3, 1)
    pixels = video_pixels(scene)
    fold_standardisation(reader.projector, features(tower, pixels[None]))
    round_to_bf16(tower, reader)
    export_video_llava(tmp_path / "model", tower, reader, tiny_vocabulary)
    seen = tower(normalise(pixels)).last_hidden_state
    samples = write_scenes(tmp_path, [scene], workers=1)
    witness = Witness(load(tmp_path / "model", TARGET), TARGET, samples)
    trained = reader.visual_embeddings(seen[None])
    # The training clip holds 8 of the file's 24 frames, so the two went through different compressions.
    difference = (witness.visual - trained).abs().mean() / trained.abs().mean()
    assert witness.visual.shape == trained.shape
    assert difference < 0.05


def test_questions_of_both_layouts_fit_their_rows(processor: SentencePieceProcessor) -> None:
    for template, visible in ((EVENTGPT_V1, EVENT_VISIBLE), (VideoLlavaFamily.template, VIDEO_VISIBLE)):
        talk = Conversations(processor.encode, template, visible, length=QUESTION_TOKENS)
        packed = talk.draw(np.repeat(LABELS, 20, axis=0), np.random.default_rng(7))
        assert packed.tokens.shape == packed.targets.shape == (40, QUESTION_TOKENS)
        assert int(packed.turn.max(dim=1).values.min()) >= 4


@torch.no_grad()
def round_to_bf16(*modules: torch.nn.Module) -> None:
    for module in modules:
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16().float())
