"""Vocabularies: text to ids and back, and the text of single pieces; sentencepiece, tokenizer.json or synthetic words.

`engines.tokens.prompts` adds the beginning of a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Protocol

from engines.checkpoints.shards import read_json
from engines.tokens.tokenizer_file import (
    CHATML_ENDS,
    MOST_MODEL_BYTES,
    byte_level_text,
    check_sentencepiece,
    checked_tokenizer,
    tokenizer_values,
)
from engines.tokens.tokenizer_file import MOST_BYTES as MOST_JSON_BYTES
from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file
from evprof.core.texts import UNKNOWN, is_byte, join_pieces, one_line

SPACE = "▁"
"""How sentencepiece writes a space."""

_BEGIN, _END = "<s>", "</s>"


class Vocabulary(Protocol):
    """A model's tokens. `pieces[i]` is the display text of id i: raw bytes as `<0xE2>`, "" for none. A model may have
    more rows than `size`."""

    bos_id: int | None
    eos_ids: frozenset[int]

    @property
    def size(self) -> int:
        """Number of ids."""

    @property
    def pieces(self) -> list[str]:
        """Display text by id."""

    def encode(self, text: str) -> list[int]:
        """Ids of a stretch of text by itself, without any special token; Llama's put a space before it."""

    def token_id(self, piece: str) -> int | None:
        """The id of a special token by its own spelling, or None."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; begin, end and other special tokens have none."""


class SentencePieceVocabulary:
    """A `tokenizer.model` file; `added` tokens follow its own. Text is split at special tokens, and each stretch is
    encoded separately, as the slow Llama tokenizer does. So `</s>` in a question is the end token, as in EventGPT's
    program."""

    def __init__(self, model: bytes, source: str = "tokenizer.model", added: Mapping[str, int] | None = None) -> None:
        import sentencepiece

        check_sentencepiece(model, source)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except (RuntimeError, ValueError) as error:
            problem = one_line(str(error), 200)
            raise UserError(f"{source} is no sentencepiece vocabulary ({problem}); download it again.") from None
        self.bos_id: int | None = int(self._processor.bos_id())
        self.eos_ids = frozenset({int(self._processor.eos_id())})
        if int(self._processor.bos_id()) < 0 or min(self.eos_ids) < 0:
            raise UserError(f"{source} has no beginning or no end of a sentence; a Llama vocabulary is needed.")
        self._own = int(self._processor.get_piece_size())
        self._added = dict(added or {})
        self._source = source
        self._special = {self._piece(index): index for index in self._special_ids()} | self._added
        # The longest first: one added token may begin another.
        spelled = sorted(map(re.escape, self._special), key=len, reverse=True)
        self._at_special = re.compile(f"({'|'.join(spelled)})")

    def _piece(self, index: int) -> str:
        """Its spelling. Raises UserError where that is no text."""
        try:
            return str(self._processor.id_to_piece(index))
        except UnicodeDecodeError:
            raise UserError(f"{self._source} spells token {index} in no text; download it again.") from None

    def _special_ids(self) -> set[int]:
        return {int(self._processor.bos_id()), *self.eos_ids, int(self._processor.unk_id())} - {-1}

    @property
    def size(self) -> int:
        return max([self._own, *(index + 1 for index in self._added.values())])

    @cached_property
    def pieces(self) -> list[str]:
        processor = self._processor
        own = [
            display_text(self._piece(index), processor.is_control(index), processor.is_unknown(index))
            for index in range(self._own)
        ]
        return own + [""] * (self.size - self._own)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in self._at_special.split(text):
            if part in self._special:
                ids.append(self._special[part])
            elif part:
                ids += [int(index) for index in self._processor.encode(part, out_type=int)]
        return ids

    def token_id(self, piece: str) -> int | None:
        if piece in self._added:
            return self._added[piece]
        index = int(self._processor.piece_to_id(piece))
        return None if self._processor.is_unknown(index) else index

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._processor.decode([int(index) for index in ids if 0 <= index < self._own]))


class FileVocabulary:
    """A `tokenizer.json` file, read by the tokenizers library: Llama's pieces, or Qwen2's, which are bytes."""

    bos_id: int | None

    def __init__(self, content: bytes, source: str = "tokenizer.json") -> None:
        from tokenizers import Tokenizer

        text = checked_tokenizer(content, source)
        try:
            self._tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # noqa: BLE001 - tokenizers raises bare Exception for whatever it cannot read
            raise UserError(f"{source} is no tokenizer file ({str(error)[:200]}); download it again.") from None
        splitter: Any = self._tokenizer.pre_tokenizer
        self._is_bytes = splitter is not None and b'"ByteLevel"' in splitter.__getstate__()
        self.bos_id, self.eos_ids = self._begin_and_ends(source)

    def _begin_and_ends(self, source: str) -> tuple[int | None, frozenset[int]]:
        """The ids of the tokens that begin and end a text. Raises UserError for a file without."""
        begin, end = self.token_id(_BEGIN), self.token_id(_END)
        if begin is not None and end is not None:
            return begin, frozenset({end})
        ends = frozenset(found for token in CHATML_ENDS if (found := self.token_id(token)) is not None)
        if not self._is_bytes:
            raise UserError(f"{source} has no {_BEGIN} or no {_END}; a Llama vocabulary is needed.")
        if not ends:
            raise UserError(f"{source} has no {' and no '.join(CHATML_ENDS)}; Qwen2's vocabulary is needed.")
        return None, ends

    @property
    def size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @cached_property
    def pieces(self) -> list[str]:
        added = self._tokenizer.get_added_tokens_decoder()
        shown: list[str] = []
        for index in range(self.size):
            piece = self._tokenizer.id_to_token(index) or ""
            special = index in added and added[index].special
            if self._is_bytes:
                shown.append("" if special else byte_level_text(piece))
                continue
            shown.append(display_text(piece, special and piece != "<unk>", piece == "<unk>"))
        return shown

    def encode(self, text: str) -> list[int]:
        return [int(index) for index in self._tokenizer.encode(text, add_special_tokens=False).ids]

    def token_id(self, piece: str) -> int | None:
        index = self._tokenizer.token_to_id(piece)
        return None if index is None else int(index)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, as sentencepiece gives it for the same pieces; with pieces of bytes no space goes lost."""
        pieces = [self.pieces[index] for index in ids if 0 <= index < self.size]
        return join_pieces(["x", *pieces])[1:] if self._is_bytes else join_pieces(pieces)


class SyntheticVocabulary:
    """32,000 distinct made-up words for models with random weights. Ids 0, 1, 2 are unknown, begin and end, 3 to 258
    the bytes, 259 a space, then pronounceable words with a space in front. `extra` are special tokens above them."""

    SHARED = 32_000

    def __init__(self, extra: Sequence[str] = ()) -> None:
        self.bos_id: int | None = 1
        self.eos_ids = frozenset({2})
        self._extra = {name: self.SHARED + index for index, name in enumerate(extra)}
        bytes_ = [f"<0x{value:02X}>" for value in range(256)]
        words = [" ", *(f" {word}" for word in _words(self.SHARED - 4 - len(bytes_)))]
        self.pieces = [UNKNOWN, "", "", *bytes_, *words, *("" for _ in extra)]
        self._ids = {word: 259 + index for index, word in enumerate(words)}

    @property
    def size(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in re.findall(r" [a-z]+|.", f" {text}", flags=re.DOTALL):
            if part in self._ids:
                ids.append(self._ids[part])
                continue
            # A space is always the piece, never the byte: only so is the first one known to be the dummy.
            ids += [self._ids[" "]] if part.startswith(" ") else []
            ids += [3 + byte for byte in part.removeprefix(" ").encode()]
        return ids

    def token_id(self, piece: str) -> int | None:
        return self._extra.get(piece)

    def decode(self, ids: Sequence[int]) -> str:
        return join_pieces(self.pieces[index] for index in ids if 0 <= index < self.size)


def display_text(piece: str, is_special: bool, is_unknown: bool) -> str:
    if is_special:
        return ""
    if is_unknown:
        return UNKNOWN
    return piece if is_byte(piece) else piece.replace(SPACE, " ")


def _words(count: int) -> Iterable[str]:
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    made = 0
    for length in (2, 3):
        for parts in product(syllables, repeat=length):
            if made == count:
                return
            made += 1
            yield "".join(parts)


_MODEL, _FILE, _PIECES, _MERGES = "tokenizer.model", "tokenizer.json", "vocab.json", "merges.txt"


def read_vocabulary(folder: Path, *, prefer_file: bool, rows: int | None = None) -> Vocabulary:
    """The vocabulary of a checkpoint: `tokenizer.json` first when `prefer_file`, else `tokenizer.model`, else
    `vocab.json` with `merges.txt`. An added_tokens.json joins a `tokenizer.model` within `rows`. Raises UserError if
    there is none."""
    file = vocabulary_file(folder, prefer_file=prefer_file)
    if file is None:
        raise UserError(f"{folder} has neither tokenizer.model nor tokenizer.json; download the checkpoint again.")
    if file.name == _PIECES:
        return FileVocabulary(json.dumps(tokenizer_values(folder)).encode(), str(file))
    size = regular_file(file, "download the checkpoint again").stat().st_size
    if size > (MOST_JSON_BYTES if file.suffix == ".json" else MOST_MODEL_BYTES):
        raise UserError(f"{file} is {size:,} bytes long, far too long for a vocabulary.")
    if file.suffix == ".json":
        return FileVocabulary(file.read_bytes(), str(file))
    plain = SentencePieceVocabulary(file.read_bytes(), str(file))
    added = _added_tokens(folder / "added_tokens.json", plain.size, rows)
    return SentencePieceVocabulary(file.read_bytes(), str(file), added) if added else plain


def vocabulary_file(folder: Path, *, prefer_file: bool) -> Path | None:
    """The file `read_vocabulary` reads, or None when there is none."""
    order = (_FILE, _MODEL) if prefer_file else (_MODEL, _FILE)
    pieces = (_PIECES,) if (folder / _MERGES).exists() else ()
    return next((folder / name for name in (*order, *pieces) if (folder / name).exists()), None)


def _added_tokens(path: Path, size: int, rows: int | None) -> dict[str, int]:
    if rows is None or not path.is_file():
        return {}
    listed = read_json(path)
    return {name: index for name, index in listed.items() if name and isinstance(index, int) and size <= index < rows}
