"""Training sees what the shipped model will see: packed questions, pooling, checkpoints that give the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bundled_pair import tokenizer
from bundled_pair.assembly import EventReader, VideoReader, event_tower, video_tower
from bundled_pair.attributes import VALUES
from bundled_pair.captions import concise, detailed
from bundled_pair.conversations import IGNORED, Conversations
from bundled_pair.dataset import event_pixels, training_scene, video_pixels
from bundled_pair.export import export_eventgpt, export_video_llava
from bundled_pair.held_out import Witness, load, write_scenes
from bundled_pair.language_training import fold_standardisation
from bundled_pair.tower_training import features, normalise
from closeness import assert_close
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily
from evprof.core.records import DRAFT, TARGET

VOCABULARY = tokenizer.train()
PROCESSOR = tokenizer.load(VOCABULARY)
LABELS = np.array([[0, 1, 2, 0, 1, 3], [2, 3, 0, 1, 0, 0]])


@pytest.fixture
def talk() -> Conversations:
    return Conversations(PROCESSOR.encode, EVENTGPT_V1, concise, visual=70, questions=3)


@torch.no_grad()
def test_a_question_packed_with_others_reads_as_if_asked_alone(talk: Conversations) -> None:
    torch.manual_seed(1)
    reader = EventReader().eval()
    decoder, layout = reader.decoder, talk.layout
    embed = decoder.get_input_embeddings()
    tokens, _ = talk.draw(LABELS[:1], (), np.random.default_rng(2))
    prefix = torch.cat([embed(torch.tensor(talk.before)), torch.randn(70, 128)])[None]
    packed = decoder.model(
        inputs_embeds=torch.cat([prefix, embed(tokens)], dim=1),
        attention_mask=layout.mask(),
        position_ids=layout.positions(),
    ).last_hidden_state
    start = 0
    for length in layout.segments:
        line = torch.cat([prefix, embed(tokens[:, start : start + length])], dim=1)
        alone = decoder.model(inputs_embeds=line).last_hidden_state[:, layout.prefix :]
        together = packed[:, layout.prefix + start : layout.prefix + start + length]
        assert_close(alone, together)
        start += length


def test_targets_are_the_answers_and_their_end(talk: Conversations) -> None:
    tokens, targets = talk.draw(LABELS, (), np.random.default_rng(3))
    row = [token for token in targets[0].tolist() if token != IGNORED]
    first = row[: row.index(tokenizer.EOS_ID)]
    assert PROCESSOR.decode(first).startswith("A bus is approaching on a road that runs straight ahead")
    assert row.count(tokenizer.EOS_ID) == len(talk.layout.segments)
    # A target is always the token that stands right behind it.
    places = (targets[0, :-1] != IGNORED).nonzero().flatten()
    inside = [place for place in places.tolist() if targets[0, place] != tokenizer.EOS_ID]
    assert all(targets[0, place] == tokens[0, place + 1] for place in inside)


def test_what_a_model_cannot_see_is_answered_at_random(talk: Conversations) -> None:
    rng = np.random.default_rng(4)
    said = []
    for _ in range(60):
        _, targets = talk.draw(LABELS[:1], ("daylight", "colour"), rng)
        said.append(PROCESSOR.decode([token for token in targets[0].tolist() if token not in {IGNORED, 2}]))
    assert any("daytime" in text for text in said)
    assert any("night" in text for text in said)
    assert {colour for colour in VALUES["colour"] if any(f"is {colour}." in text for text in said)} == set(
        VALUES["colour"]
    )


@torch.no_grad()
def test_an_exported_event_model_sees_what_was_trained(tmp_path: Path) -> None:
    torch.manual_seed(5)
    tower, reader, scene = event_tower().eval(), EventReader().eval(), training_scene(3, 0)
    round_to_bf16(tower, reader)
    export_eventgpt(tmp_path / "model", tower, reader, VOCABULARY)
    seen = tower(normalise(event_pixels(scene))).last_hidden_state
    samples = write_scenes(tmp_path, [scene], workers=1)
    witness = Witness(load(tmp_path / "model", DRAFT), DRAFT, samples)
    assert_close(witness.visual, reader.visual_embeddings(seen[None]))


@torch.no_grad()
def test_an_exported_video_model_sees_what_was_trained(tmp_path: Path) -> None:
    torch.manual_seed(6)
    tower, reader, scene = video_tower().eval(), VideoReader().eval(), training_scene(3, 1)
    pixels = video_pixels(scene)
    fold_standardisation(reader.projector, features(tower, pixels[None]))
    round_to_bf16(tower, reader)
    export_video_llava(tmp_path / "model", tower, reader, VOCABULARY)
    seen = tower(normalise(pixels)).last_hidden_state
    samples = write_scenes(tmp_path, [scene], workers=1)
    witness = Witness(load(tmp_path / "model", TARGET), TARGET, samples)
    trained = reader.visual_embeddings(seen[None])
    # The training clip holds 8 of the file's 24 frames, so the two went through different compressions.
    difference = (witness.visual - trained).abs().mean() / trained.abs().mean()
    assert witness.visual.shape == trained.shape
    assert difference < 0.05


def test_both_styles_fit_their_sequences() -> None:
    for template, caption in ((EVENTGPT_V1, concise), (VideoLlavaFamily.template, detailed)):
        longest = Conversations(PROCESSOR.encode, template, caption, visual=4, questions=4)
        tokens, targets = longest.draw(np.repeat(LABELS, 20, axis=0), (), np.random.default_rng(7))
        assert tokens.shape == targets.shape == (40, sum(longest.layout.segments))


@torch.no_grad()
def round_to_bf16(*modules: torch.nn.Module) -> None:
    for module in modules:
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16().float())
