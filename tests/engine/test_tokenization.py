"""Vocabularies: ids equal to sentencepiece's, pieces that add up to the text, prompts as EventGPT tokenizes them."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE

import assets
from engines.families.eventgpt import EVENTGPT_V1
from engines.families.llava import LlavaFamily, VideoLlavaFamily
from engines.tokens.prompts import SLOT, prompt_ids
from engines.tokens.tokenization import FileVocabulary, SentencePieceVocabulary
from engines.tokens.vocabulary_alignment import align
from evprof.core.errors import UserError
from evprof.core.text import join_pieces

QUESTION = "What are the key elements in this scene?"
CORPUS = [
    EVENTGPT_V1.before,
    EVENTGPT_V1.after.format(question=QUESTION),
    "A person with a cap and jacket holding a large fish, with water and trees behind.",
    "The car turns left on a curved road; it is night and the street is empty.",
    "USER: ASSISTANT: scene scenes screen street straight strange",
] * 3


def train() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line.replace("\n", " ") for line in CORPUS),
        model_writer=model,
        model_type="bpe",
        vocab_size=420,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=1.0,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()


MODEL = train()
PROCESSOR = sentencepiece.SentencePieceProcessor(model_proto=MODEL)
OURS = SentencePieceVocabulary(MODEL)


def tokenizer_json(extra: tuple[str, ...] = ("<image>", "<video>", "<pad>")) -> bytes:
    """The same vocabulary as a tokenizer.json, the way published Llama ones are built."""
    pieces = [PROCESSOR.id_to_piece(index) for index in range(PROCESSOR.get_piece_size())]
    ranks = {piece: index for index, piece in enumerate(pieces)}
    merges = [
        (-PROCESSOR.get_score(index), ranks[piece[:cut]], ranks[piece[cut:]], (piece[:cut], piece[cut:]))
        for piece, index in ranks.items()
        if index > 258
        for cut in range(1, len(piece))
        if piece[:cut] in ranks and piece[cut:] in ranks
    ]
    tokenizer = Tokenizer(
        BPE(ranks, [pair for *_, pair in sorted(merges)], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in ("<unk>", "<s>", "</s>")]
    )
    tokenizer.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in extra])
    return tokenizer.to_str().encode()


FILE = FileVocabulary(tokenizer_json())
PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁\x00"), max_size=40).filter(
    lambda text: not any(special in text for special in ("<s>", "</s>", "<unk>"))
)
"""Special tokens spelled in a text become themselves: see test_llama_tokenizer."""


@given(PLAIN_TEXT)
def test_encode_is_sentencepieces_own(text: str) -> None:
    assert OURS.encode(text) == PROCESSOR.encode(text)


@given(PLAIN_TEXT)
def test_text_comes_back(text: str) -> None:
    assert OURS.decode(OURS.encode(text)) == text
    assert join_pieces(OURS.pieces[index] for index in OURS.encode(text)) == text


@given(st.lists(st.integers(0, 419), max_size=30))
@example([197, 1, 131])
def test_decode_is_sentencepieces_for_any_ids(ids: list[int]) -> None:
    assert OURS.decode(ids) == PROCESSOR.decode(ids)
    assert FILE.decode(ids) == PROCESSOR.decode(ids)


@given(st.text("abcdefghijklmnopqrstuvwxyzABS .:?é漢\n", max_size=60))
def test_a_tokenizer_file_gives_the_same_ids(text: str) -> None:
    if text:
        assert FILE.encode(text) == PROCESSOR.encode(text)
    assert FILE.decode(PROCESSOR.encode(text)) == PROCESSOR.decode(PROCESSOR.encode(text))


def test_pieces_are_what_a_reader_sees() -> None:
    assert OURS.pieces[OURS.bos_id] == OURS.pieces[2] == ""
    assert OURS.pieces[PROCESSOR.piece_to_id("<0xE2>")] == "<0xE2>"
    assert OURS.pieces[PROCESSOR.piece_to_id("▁scene")] == " scene"
    assert FILE.pieces[: OURS.size] == OURS.pieces
    assert FILE.pieces[OURS.size :] == ["", "", ""]
    met = align(OURS, FILE)
    assert met.is_prefix
    assert met.shared == OURS.size == 420


def test_eventgpt_prompt_is_tokenized_around_the_slot() -> None:
    tokens = prompt_ids(OURS, EVENTGPT_V1, QUESTION)
    before, after = EVENTGPT_V1.before, f"<ev_end>\n{QUESTION} ASSISTANT:"
    assert before.endswith("the human's questions. USER: <ev_start>")
    assert list(tokens.ids) == [1, *PROCESSOR.encode(before), SLOT, *PROCESSOR.encode(after)]
    assert tokens.ids.count(1) == tokens.ids.count(-200) == 1
    assert tokens.system == 1 + len(PROCESSOR.encode(EVENTGPT_V1.system))


def test_prompts_are_spelled_as_published() -> None:
    assert "<event>".join(EVENTGPT_V1.chunks(QUESTION)) == (
        "A chat between a curious human and an artificial intelligence assistant. The assistant gives helpful, "
        "detailed, and polite answers to the human's questions. USER: <ev_start><event><ev_end>\n"
        "What are the key elements in this scene? ASSISTANT:"
    )
    assert "<video>".join(VideoLlavaFamily.template.chunks(QUESTION)) == f"USER: <video>\n{QUESTION} ASSISTANT:"
    assert "<image>".join(LlavaFamily.template.chunks(QUESTION, 2)) == f"USER: <image>\n<image>\n{QUESTION} ASSISTANT:"


def test_video_prompt_is_tokenized_whole() -> None:
    tokens = prompt_ids(FILE, VideoLlavaFamily.template, QUESTION)
    whole = FILE.encode(f"USER: <video>\n{QUESTION} ASSISTANT:")
    slot = FILE.token_id("<video>")
    assert slot == 421
    assert [index if index != SLOT else slot for index in tokens.ids] == [1, *whole]
    assert tokens.ids.count(SLOT) == 1
    by_chunks = prompt_ids(OURS, VideoLlavaFamily.template, QUESTION)
    assert by_chunks == tokens


def test_a_question_cannot_smuggle_a_slot_in() -> None:
    with pytest.raises(UserError, match="<event>"):
        prompt_ids(OURS, EVENTGPT_V1, "what is <event> here?")


@pytest.mark.parametrize("kind", [SentencePieceVocabulary, FileVocabulary])
def test_a_file_that_is_no_vocabulary_is_refused(kind: type[SentencePieceVocabulary] | type[FileVocabulary]) -> None:
    with pytest.raises(UserError, match="somewhere/t"):
        kind(b"not a vocabulary at all", "somewhere/t")


def test_a_vocabulary_whose_marks_are_no_text_is_refused() -> None:
    model = (Path(assets.__file__).parent / "models/evprof-tiny-eventgpt/tokenizer.model").read_bytes()
    assert b"<unk>" in model
    with pytest.raises(UserError, match=r"no sentencepiece vocabulary .*utf-8"):
        SentencePieceVocabulary(model.replace(b"<unk>", b"<\xe6nk>", 1), "tokenizer.model")


def test_what_the_library_says_of_a_vocabulary_becomes_one_sentence() -> None:
    model = (Path(assets.__file__).parent / "models/evprof-tiny-eventgpt/tokenizer.model").read_bytes()
    assert b"<0x1F>" in model
    with pytest.raises(UserError, match="byte piece") as caught:
        SentencePieceVocabulary(model.replace(b"<0x1F>", b"\n0x1F>", 1), "tokenizer.model")
    assert "\n" not in caught.value.sentence
