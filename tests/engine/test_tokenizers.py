"""Vocabularies: ids equal the reference tokenizers', prompts are spelled as published."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor
from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE

from checkpoint_folders import PIECES, TOKENIZER_JSON, TOKENIZER_MODEL
from engines.families.eventgpt import EVENTGPT_V1
from engines.families.llava import LlavaFamily, VideoLlavaFamily
from engines.tokens.prompts import SLOT, prompt_ids
from engines.tokens.tokenization import FileVocabulary, SentencePieceVocabulary
from engines.tokens.vocabulary_alignment import align
from evprof.core.errors import UserError
from evprof.core.texts import join_pieces

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
PROCESSOR = SentencePieceProcessor(model_proto=MODEL)
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


def test_a_vocabulary_whose_marks_are_no_text_is_refused() -> None:
    assert b"<unk>" in TOKENIZER_MODEL
    with pytest.raises(UserError, match=r"no sentencepiece vocabulary .*utf-8"):
        SentencePieceVocabulary(TOKENIZER_MODEL.replace(b"<unk>", b"<\xe6nk>", 1), "tokenizer.model")


LLAMA_PROCESSOR = SentencePieceProcessor(model_proto=TOKENIZER_MODEL)
SPECIAL = {"<unk>": 0, "<s>": 1, "</s>": 2}

PARTS = [
    *("\n", "\n\n", "\r\n", "\t", " ", "  ", "    ", "\u00a0", "\u3000", "\u200b", "\u2028", "\ufeff"),
    *("</s>", "<s>", "<unk>", "</s></s>", "<</s>>", "< /s>", "</S>", "<s", "/s>", "<pad>", "<0x0A>", "<0xE2>"),
    *("<ev_start>", "<event>", "<ev_end>", "<ev_start><event><ev_end>", "<video>", "<image>", "<ev_patch>"),
    *(
        "😀",
        "👩‍👩‍👧",
        "🇩🇪",
        "🏃🏽‍♀️",
        "é",
        "e\u0301",
        "ﬁ",
        "Ⅳ",
        "漢字",
        "カメラ",
        "한국어",
        "русский",
        "עברית",
        "العربية",
    ),
    *("\x01", "\x07", "\x1b[0m", "\x7f", "\x85", "▁", "▁▁", "\U0010ffff", "\ue000", "a\x00b"),
    *(
        "USER:",
        "ASSISTANT:",
        "What is in the scene?",
        "The car turns left.",
        "street",
        "s",
        "S",
        "12345",
        "3.14",
        "...",
    ),
    *("{question}", "%s", "\\n", "'", '"', "http://a.b/c?d=e&f", "ALLCAPS", "camelCase", "x" * 50),
]
WORDS = [LLAMA_PROCESSOR.id_to_piece(index).replace("▁", " ") for index in range(259, LLAMA_PROCESSOR.get_piece_size())]


def straight_line(text: str) -> list[int]:
    """Cuts the first special token off the front, over and over."""
    ids: list[int] = []
    while text:
        places = [(text.find(name), name) for name in SPECIAL if name in text]
        if not places:
            return ids + LLAMA_PROCESSOR.encode(text)
        start, name = min(places)
        if start > 0:
            ids += LLAMA_PROCESSOR.encode(text[:start])
        ids.append(SPECIAL[name])
        text = text[start + len(name) :]
    return ids


def strings(count: int) -> list[str]:
    draw = random.Random(20_261_121)
    made = ["", " ", "  leading", "trailing  ", "</s>", " </s>", "</s> ", "a</s>b", "a </s> b", "\n</s>\n"]
    while len(made) < count:
        kind = draw.random()
        if kind < 0.5:
            made.append("".join(draw.choices(PARTS, k=draw.randint(1, 8))))
        elif kind < 0.7:
            made.append("".join(draw.choices([*PARTS, *WORDS], k=draw.randint(1, 12))))
        elif kind < 0.85:
            words = draw.choices(PARTS, k=draw.randint(1, 8))
            made.append(draw.choice((" ", "  ", "\n")).join(words))
        else:
            # Anything that is a character at all.
            points = (draw.randrange(0x110000) for _ in range(draw.randint(1, 12)))
            made.append("".join(chr(point) for point in points if not 0xD800 <= point < 0xE000))
    return made


def test_ten_thousand_strings_give_the_reference_ids() -> None:
    ours = SentencePieceVocabulary(TOKENIZER_MODEL)
    texts = strings(10_000)
    different = [text for text in texts if ours.encode(text) != straight_line(text)]
    assert different == []
    seen = {index for text in texts for index in straight_line(text)}
    # The strings are worth something: they hold every special token and most of the words.
    assert {0, 1, 2} <= seen
    assert len(seen) > 450
    assert sum("</s>" in text for text in texts) > 500


@pytest.mark.parametrize("question", ["Is </s> the end?", "</s>", "a\n</s>  b<s>", "  two spaces", "<unk> 😀"])
def test_a_question_may_spell_special_tokens_as_in_the_released_program(question: str) -> None:
    """They become tokens in the middle of the prompt; the one beginning-of-sentence of the layout stays the first."""
    ours = SentencePieceVocabulary(TOKENIZER_MODEL)
    before, after = EVENTGPT_V1.before, f"<ev_end>\n{question} ASSISTANT:"
    ids = prompt_ids(ours, EVENTGPT_V1, question).ids
    assert list(ids) == [1, *straight_line(before), SLOT, *straight_line(after)]
    assert ids.count(2) == question.count("</s>")
    assert ids.count(1) == 1 + question.count("<s>")


PUBLISHED = [
    *(1, 319, 13563, 1546, 263, 12758, 5199, 322, 385, 23116, 21082, 20255, 29889, 450, 20255, 4076, 8444, 29892),
    *(13173, 29892, 322, 1248, 568, 6089, 304, 278, 5199, 29915, 29879, 5155, 29889, 3148, 1001, 29901, 529, 5750),
    *(29918, 2962, 29958, -200, 529, 5750, 29918, 355, 29958, 13, 5618, 526, 278, 1820, 3161, 297, 445, 9088, 29973),
    *(319, 1799, 9047, 13566, 29901),
]


@pytest.mark.skipif("EVPROF_LLAMA_TOKENIZER" not in os.environ, reason="names no Llama tokenizer.model")
def test_the_published_prompt_has_the_published_ids() -> None:
    path = Path(os.environ["EVPROF_LLAMA_TOKENIZER"])
    ours = SentencePieceVocabulary(path.read_bytes(), str(path))
    assert len(PUBLISHED) == 60
    assert list(prompt_ids(ours, EVENTGPT_V1, "What are the key elements in this scene?").ids) == PUBLISHED


def test_the_vocabulary_is_laid_out_like_the_published_pair() -> None:
    slow, fast = SentencePieceProcessor(model_proto=TOKENIZER_MODEL), Tokenizer.from_str(TOKENIZER_JSON.decode())
    assert slow.get_piece_size() == PIECES
    assert [slow.id_to_piece(index) for index in range(3)] == ["<unk>", "<s>", "</s>"]
    assert all(slow.is_byte(3 + value) for value in range(256))
    above = [fast.id_to_token(PIECES + index) for index in range(3)]
    assert above == ["<image>", "<video>", "<pad>"]
    assert fast.get_vocab_size() == 768


def test_prompts_of_the_two_layouts_are_short() -> None:
    slow = SentencePieceProcessor(model_proto=TOKENIZER_MODEL)
    question = "What are the key elements in this scene?"
    assert sum(len(slow.encode(piece)) for piece in EVENTGPT_V1.chunks(question)) < 140
    assert sum(len(slow.encode(piece)) for piece in VideoLlavaFamily.template.chunks(question)) < 40
