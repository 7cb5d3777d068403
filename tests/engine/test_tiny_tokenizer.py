"""The pair's two tokenizers are one vocabulary: equal ids for any text, any text encodable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from checkpoint_folders import PIECES, TOKENIZER_JSON, TOKENIZER_MODEL
from engines.families.eventgpt import EVENTGPT_V1
from engines.families.llava import VideoLlavaFamily

# Tokens of our own and sentencepiece's space sign mean something else; NUL is the one character sentencepiece drops.
TEXT = st.text(st.characters(exclude_characters="\u2581\0", exclude_categories=["Cs"]), max_size=40).filter(
    lambda text: not any(token in text for token in ("<unk>", "<s>", "</s>", "<image>", "<video>", "<pad>"))
)


@pytest.fixture(scope="module")
def slow() -> SentencePieceProcessor:
    return SentencePieceProcessor(model_proto=TOKENIZER_MODEL)


@pytest.fixture(scope="module")
def fast() -> Tokenizer:
    return Tokenizer.from_str(TOKENIZER_JSON.decode())


@given(TEXT)
def test_any_text_survives_encoding_and_never_needs_the_unknown_token(slow: SentencePieceProcessor, text: str) -> None:
    ids = slow.encode(text)
    assert 0 not in ids
    assert slow.decode(ids) == text


@given(TEXT.filter(bool))
def test_both_forms_of_the_tokenizer_give_the_same_ids(
    slow: SentencePieceProcessor, fast: Tokenizer, text: str
) -> None:
    encoded = fast.encode(text, add_special_tokens=False).ids
    assert encoded == slow.encode(text)
    assert fast.decode(encoded) == text


def test_the_vocabulary_is_laid_out_like_the_published_pair(slow: SentencePieceProcessor, fast: Tokenizer) -> None:
    assert slow.get_piece_size() == PIECES
    assert [slow.id_to_piece(index) for index in range(3)] == ["<unk>", "<s>", "</s>"]
    assert all(slow.is_byte(3 + value) for value in range(256))
    above = [fast.id_to_token(PIECES + index) for index in range(3)]
    assert above == ["<image>", "<video>", "<pad>"]
    assert fast.get_vocab_size() == 768


@pytest.mark.parametrize("marker", ["<ev_start>", "<ev_end>"])
def test_event_markers_are_ordinary_text(slow: SentencePieceProcessor, marker: str) -> None:
    assert len(slow.encode(marker)) > 1


def test_prompts_of_the_two_layouts_are_short(slow: SentencePieceProcessor) -> None:
    question = "What are the key elements in this scene?"
    assert sum(len(slow.encode(piece)) for piece in EVENTGPT_V1.chunks(question)) < 140
    assert sum(len(slow.encode(piece)) for piece in VideoLlavaFamily.template.chunks(question)) < 40
