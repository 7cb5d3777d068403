"""Vocabularies made to harm: expressions without end, texts that grow, damaged models: a sentence each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from engines.tokens.tokenization import FileVocabulary, SentencePieceVocabulary
from engines.tokens.tokenizer_file import check_sentencepiece
from evprof.core.errors import UserError

MODELS = Path(__file__).parents[2] / "assets" / "models"
FILE = MODELS / "evprof-tiny-video-llava" / "tokenizer.json"
MODEL = MODELS / "evprof-tiny-eventgpt" / "tokenizer.model"

CATASTROPHIC = {"Regex": "(a+)+$"}


def changed(**values: Any) -> bytes:
    return json.dumps({**json.loads(FILE.read_text(encoding="utf-8")), **values}).encode()


def with_model(**values: Any) -> bytes:
    return changed(model={**json.loads(FILE.read_text(encoding="utf-8"))["model"], **values})


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a catastrophic expression": (
        changed(normalizer={"type": "Replace", "pattern": CATASTROPHIC, "content": "b"}),
        "'Replace' with a regular expression",
    ),
    "an expression inside a sequence": (
        changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": CATASTROPHIC}]}),
        "'Split' with a regular expression",
    ),
    "a long replacement": (
        changed(normalizer={"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 10_000_000}),
        "normalizes texts by 'Replace'",
    ),
    "a long beginning": (changed(normalizer={"type": "Prepend", "prepend": "x" * 5_000_000}), "'Prepend'"),
    "a table of its own": (changed(normalizer={"type": "Precompiled", "precompiled_charsmap": "AA"}), "'Precompiled'"),
    "many steps": (changed(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}), "too many steps"),
    "steps in steps": (
        changed(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Sequence", "pretokenizers": "no"}]}),
        "splits texts by 'Sequence'",
    ),
    "another kind of vocabulary": (with_model(type="Unigram"), "'Unigram'"),
    "pieces as a list": (with_model(vocab=["a", "b"]), "no table"),
    "a piece without end": (with_model(vocab={"a" * 10_000: 0}), "a piece of more than 1,000 letters"),
    "an ending without end": (with_model(end_of_word_suffix="x" * 100_000), "without end"),
    "an added text without end": (
        changed(added_tokens=[{"id": 0, "content": "x" * 10_000, "special": True}]), "without a text"),
    "no model": (b"{}", "holds no model"),
    "a list": (b"[]", "holds no model"),
    "too deep": (b"[" * 100_000, "nested too deeply"),
    "not JSON": (b"\xff\xfe\x00", "no tokenizer file"),
    "far too long": (b" " * 26_000_000, "far too long"),
    "half a letter": (with_model(unk_token="\ud800"), "no tokenizer file"),
    "huge numbers": (with_model(vocab={"<s>": 10**30, "</s>": 1, "<unk>": 0}), "no tokenizer file"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_tokenizer_file_made_to_harm_is_refused(name: str) -> None:
    content, words = HOSTILE[name]
    with pytest.raises(UserError) as told:
        FileVocabulary(content, "/models/x/tokenizer.json")
    assert words in told.value.sentence
    assert told.value.sentence.startswith("/models/x/tokenizer.json")
    assert len(told.value.sentence) < 500


def test_padding_and_dropout_of_a_file_are_not_used() -> None:
    """A padding to a thousand million tokens would fill the memory; ids with dropout would differ from run to run."""
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
               "pad_type_id": 0, "pad_token": "<pad>"}  # fmt: skip
    plain = FileVocabulary(FILE.read_bytes())
    text = "What are the key elements in this scene?"
    assert FileVocabulary(changed(padding=padding)).encode(text) == plain.encode(text)
    dropping = FileVocabulary(with_model(dropout=0.9))
    assert {tuple(dropping.encode(text)) for _ in range(5)} == {tuple(plain.encode(text))}


def test_published_forms_are_read() -> None:
    """As Llama's own files have been written over the years: by a normalizer, or by Metaspace."""
    plain = FileVocabulary(FILE.read_bytes())
    newer = changed(
        normalizer=None,
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False},
    )
    assert FileVocabulary(newer).encode("a scene") == plain.encode("a scene")


def train(rule: str) -> bytes:
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a car drives on a road", "the road is long and wide"] * 5), model_writer=model,
        vocab_size=40, model_type="bpe", normalization_rule_name=rule, minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


def test_a_model_that_rewrites_texts_is_refused() -> None:
    check_sentencepiece(train("identity"), "m")
    with pytest.raises(UserError, match="rewrites texts by a table of its own"):
        SentencePieceVocabulary(train("nmt_nfkc"), "m")


def test_damaged_models_are_refused_before_the_library_reads_them() -> None:
    """Cut anywhere, and with every byte of the beginning changed: a sentence, or a vocabulary that works."""
    model = MODEL.read_bytes()
    refused = 0
    for cut in range(1, len(model), 997):
        with pytest.raises(UserError):
            SentencePieceVocabulary(model[:cut], "m")
    for place in range(300):
        for value in (0x00, 0x7F, 0xFF):
            damaged = bytearray(model)
            damaged[place] = value
            try:
                SentencePieceVocabulary(bytes(damaged), "m").encode("a scene")
            except UserError:
                refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a Llama vocabulary is needed"),
        (b"\x0a\xff\xff\xff\xff\x0f", "ends in the middle"),
        (b"\x0a" + b"\xff" * 20, "does not end"),
        (b"\x0b", "no protocol buffer"),
        (b"\x00" * 26_000_000, "far too long"),
        (b"\x0a\xd4\x0f\x0a\xd0\x0f" + b"x" * 2000, "ends in the middle"),
    ],
)
def test_models_that_are_none(content: bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        SentencePieceVocabulary(content, "m")
