"""Vocabularies of bytes: what transformers' Qwen2 tokenizer makes of the same files, and the text of single pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import Qwen2Tokenizer

from engines.tokens.tokenization import FileVocabulary, read_vocabulary, vocabulary_file
from engines.tokens.tokenizer_file import byte_level_text
from engines.tokens.vocabulary_alignment import align, ends_of
from evprof.core.errors import UserError
from evprof.core.run_info import SAME
from evprof.core.texts import join_pieces
from qwen2_folders import SPECIAL, TEXT, tokenizer, write_tokenizer

MADE: Tokenizer = tokenizer()
OURS = FileVocabulary(MADE.to_str().encode())
TEXTS = st.one_of(
    st.text(max_size=40), st.lists(st.sampled_from([*TEXT.split(" "), *SPECIAL, "€", "漢", "\n\n"])).map(" ".join)
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same vocabulary as one file, and as the three older ones."""
    made = tmp_path_factory.mktemp("file"), tmp_path_factory.mktemp("older")
    for folder, is_slow in zip(made, (False, True), strict=True):
        write_tokenizer(folder, MADE, is_slow=is_slow)
    return made


def test_ids_are_those_of_transformers(folders: tuple[Path, Path]) -> None:
    older = folders[1]
    theirs: Any = Qwen2Tokenizer.from_pretrained(older)
    for text in (TEXT, f"<|im_start|>user\n{TEXT}<|im_end|>\n", "  two  spaces\n\n\nlines", "漢字 € é e\u0301"):
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert OURS.encode(text) == expected
        assert OURS.decode(expected) == theirs.decode(expected, skip_special_tokens=True)


@given(TEXTS)
def test_the_older_files_hold_the_same_vocabulary(text: str) -> None:
    assert OURS.encode(text) == MADE.encode(text, add_special_tokens=False).ids
    # Normalized as Qwen2 does it, nothing goes lost: no space is put before a text, none is taken away.
    whole = MADE.normalizer.normalize_str(text)
    if not any(token in text for token in SPECIAL):
        assert OURS.decode(OURS.encode(text)) == whole


def test_both_forms_are_read(folders: tuple[Path, Path]) -> None:
    one, other = (read_vocabulary(folder, prefer_file=True) for folder in folders)
    assert [getattr(vocabulary_file(folder, prefer_file=True), "name", "") for folder in folders] == [
        "tokenizer.json",
        "vocab.json",
    ]
    assert one.pieces == other.pieces == OURS.pieces
    assert (one.size, one.bos_id, one.eos_ids) == (other.size, other.bos_id, other.eos_ids)
    assert one.encode(TEXT) == other.encode(TEXT)
    assert align(one, other).kind == SAME


def test_answers_end_in_the_end_of_a_turn_first() -> None:
    assert OURS.bos_id is None
    assert ends_of(OURS) == [MADE.token_to_id("<|im_end|>"), MADE.token_to_id("<|endoftext|>")]
    assert [OURS.pieces[index] for index in ends_of(OURS)] == ["", ""]


@given(st.binary(min_size=1, max_size=12))
def test_a_piece_shows_its_text_or_its_bytes(content: bytes) -> None:
    letters = {OURS.pieces[index]: index for index in range(OURS.size)}
    assert len(letters) == OURS.size - 2  # special tokens show nothing
    spelled = "".join(MADE.id_to_token(_id_of(value)) for value in content)
    shown = byte_level_text(spelled)
    assert join_pieces(["x", shown])[1:] == join_pieces(f"<0x{value:02X}>" for value in content)


def _id_of(value: int) -> int:
    """The id of the piece that is one byte."""
    return next(index for index in range(OURS.size) if byte_level_text(MADE.id_to_token(index)) == _shown(value))


def _shown(value: int) -> str:
    return chr(value) if value < 128 else f"<0x{value:02X}>"


def test_a_character_in_two_pieces_becomes_itself() -> None:
    shown = [byte_level_text(piece) for piece in ("Ġâ", "Ĥ¬", "uro")]
    assert shown == ["<0x20><0xE2>", "<0x82><0xAC>", "uro"]
    assert join_pieces(shown) == " €uro"
    assert byte_level_text("<0x41>") == "".join(f"<0x{ord(letter):02X}>" for letter in "<0x41>")


def changed(**values: Any) -> bytes:
    return json.dumps(json.loads(MADE.to_str()) | values).encode()


def test_other_expressions_are_refused() -> None:
    splitter = json.loads(MADE.to_str())["pre_tokenizer"]
    splitter["pretokenizers"][0]["pattern"] = {"Regex": "(a+)+$"}
    with pytest.raises(UserError, match="splits texts by 'Split' with a regular expression"):
        FileVocabulary(changed(pre_tokenizer=splitter))


def test_a_vocabulary_without_ends_is_refused() -> None:
    with pytest.raises(UserError, match=r"has no <\|im_end\|> and no <\|endoftext\|>"):
        FileVocabulary(changed(added_tokens=[]))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("vocab.json", "[", "has no readable vocabulary"),
        ("vocab.json", "[]", "holds no table of at most"),
        ("merges.txt", "\udcff", "has no readable vocabulary"),
        ("merges.txt", "one two three", "is no tokenizer file"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"x": {"content": "a"}}}', "numbers an added token"),
        ("tokenizer_config.json", '{"added_tokens_decoder": {"1": {}}}', "adds a token without a text"),
    ],
)
def test_damaged_older_files_are_refused(name: str, content: str, sentence: str, tmp_path: Path) -> None:
    write_tokenizer(tmp_path, MADE, is_slow=True)
    (tmp_path / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=sentence):
        read_vocabulary(tmp_path, prefer_file=True)
