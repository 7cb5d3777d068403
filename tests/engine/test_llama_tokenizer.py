"""Text to ids as the slow legacy Llama tokenizer does it, on ten thousand strings that try to go wrong.

The reference here is written straight from its description: find the special tokens, hand every stretch between them
to sentencepiece by itself. It shares nothing with the program but the library.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import sentencepiece

from engines.families.eventgpt import EVENTGPT_V1
from engines.tokens.prompts import SLOT, prompt_ids
from engines.tokens.tokenization import SentencePieceVocabulary

MODEL = (Path(__file__).parents[2] / "assets" / "models" / "evprof-tiny-eventgpt" / "tokenizer.model").read_bytes()
PROCESSOR = sentencepiece.SentencePieceProcessor(model_proto=MODEL)
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
WORDS = [PROCESSOR.id_to_piece(index).replace("▁", " ") for index in range(259, PROCESSOR.get_piece_size())]


def straight_line(text: str) -> list[int]:
    """Cuts the first special token off the front, over and over."""
    ids: list[int] = []
    while text:
        places = [(text.find(name), name) for name in SPECIAL if name in text]
        if not places:
            return ids + PROCESSOR.encode(text)
        start, name = min(places)
        if start > 0:
            ids += PROCESSOR.encode(text[:start])
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
    ours = SentencePieceVocabulary(MODEL)
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
    ours = SentencePieceVocabulary(MODEL)
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
