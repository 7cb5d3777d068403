"""The pair's two tokenizers are one vocabulary: equal ids for any text, any text encodable."""

from __future__ import annotations

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bundled_pair import tokenizer as tiny
from engines.families.event_model import EVENTGPT_V1
from engines.families.video_llava import VideoLlavaFamily

MODEL = tiny.train()
SLOW: sentencepiece.SentencePieceProcessor = tiny.load(MODEL)
FAST: Tokenizer = tiny.fast(MODEL)
# Tokens of our own and sentencepiece's space sign mean something else; NUL is the one character sentencepiece drops.
TEXT = st.text(st.characters(exclude_characters="\u2581\0", exclude_categories=["Cs"]), max_size=40).filter(
    lambda text: not any(token in text for token in ("<unk>", "<s>", "</s>", *tiny.VIDEO_LLAVA_TOKENS))
)


@settings(max_examples=300)
@given(TEXT)
def test_any_text_survives_encoding_and_never_needs_the_unknown_token(text: str) -> None:
    ids = SLOW.encode(text)
    assert 0 not in ids
    assert SLOW.decode(ids) == text


@settings(max_examples=300)
@given(TEXT.filter(bool))
def test_both_forms_of_the_tokenizer_give_the_same_ids(text: str) -> None:
    encoded = FAST.encode(text, add_special_tokens=False).ids
    assert encoded == SLOW.encode(text)
    assert FAST.decode(encoded) == text


def test_the_vocabulary_is_laid_out_like_the_published_pair() -> None:
    assert SLOW.get_piece_size() == tiny.PIECES <= 1000
    assert [SLOW.id_to_piece(index) for index in range(3)] == ["<unk>", "<s>", "</s>"]
    assert all(SLOW.is_byte(3 + value) for value in range(256))
    above = [FAST.id_to_token(tiny.PIECES + index) for index in range(3)]
    assert above == ["<image>", "<video>", "<pad>"]
    assert FAST.get_vocab_size() == 768


@pytest.mark.parametrize("marker", ["<ev_start>", "<ev_end>"])
def test_event_markers_are_ordinary_text(marker: str) -> None:
    assert len(SLOW.encode(marker)) > 1


def test_prompts_of_the_two_layouts_are_short() -> None:
    question = "What are the key elements in this scene?"
    assert sum(len(SLOW.encode(piece)) for piece in EVENTGPT_V1.chunks(question)) < 140
    assert sum(len(SLOW.encode(piece)) for piece in VideoLlavaFamily.template.chunks(question)) < 40


def test_training_the_tokenizer_again_gives_the_same_pieces() -> None:
    again = tiny.load(tiny.train())
    assert [again.id_to_piece(index) for index in range(tiny.PIECES)] == [
        SLOW.id_to_piece(index) for index in range(tiny.PIECES)
    ]
