"""Tokenizer files, checked before the sentencepiece and tokenizers libraries read them.

A tokenizer.json can hold regular expressions that never end, replacements that turn a sentence into gigabytes, and
paddings of any length. The supported families need one known expression; other files are refused. A tokenizer.model
is a protocol buffer; one that rewrites texts by a table is refused. Byte-level vocabularies (GPT-2, Qwen2) write each
byte as one printable letter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from engines.checkpoints.shards import parse_json, read_json
from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file
from evprof.core.texts import is_byte

MOST_MODEL_BYTES = 25_000_000
"""Of a tokenizer.model; Llama's takes half a million."""

_MOST_PIECES = 1_000_000
_LONGEST_PIECE = 1_000
_PIECES, _REWRITING = 1, (3, 5)

_PIECE_TEXT, _TABLE = 1, 2
_NUMBER, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def check_sentencepiece(model: bytes, source: str) -> None:
    """Raises UserError naming `source` for a file that is damaged or does what no Llama vocabulary does."""
    if len(model) > MOST_MODEL_BYTES:
        raise UserError(f"{source} is {len(model)} bytes long, far too long for a vocabulary.")
    try:
        problem = _model_file_problem(memoryview(model))
    except ValueError as error:
        raise UserError(f"{source} is no sentencepiece vocabulary ({error}); download it again.") from None
    if problem:
        raise UserError(f"{source} {problem}, which no supported model needs; download it again.")


def _model_file_problem(model: memoryview) -> str | None:
    pieces = 0
    for number, content in _fields(model):
        if number == _PIECES:
            pieces += 1
            for text in (bytes(text) for inner, text in _fields(content) if inner == _PIECE_TEXT):
                if len(text) > _LONGEST_PIECE:
                    return f"holds a piece of more than {_LONGEST_PIECE:,} bytes"
                text.decode("utf-8")
        elif number in _REWRITING and any(inner == _TABLE and len(table) for inner, table in _fields(content)):
            return "rewrites texts by a table of its own"
    return f"holds more than {_MOST_PIECES:,} pieces" if pieces > _MOST_PIECES else None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field that holds bytes. Raises ValueError where the message ends early."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        kind = tag & 7
        if kind == _NUMBER:
            _, place = _varint(message, place)
            continue
        if kind == _BYTES:
            length, place = _varint(message, place)
        elif kind in (_EIGHT, _FOUR):
            length = 8 if kind == _EIGHT else 4
        else:
            raise ValueError("it is no protocol buffer")
        if length > len(message) - place:
            raise ValueError("it ends in the middle")
        if kind == _BYTES:
            yield tag >> 3, message[place : place + length]
        place += length


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it ends in the middle")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number in it does not end")


MOST_BYTES = 25_000_000
"""Of a tokenizer.json; Llama's take two to ten million. Parsed, a file takes some twenty times its size."""

_MOST_ADDED = 20_000
_MOST_STEPS = 10

_MODEL_KEYS = frozenset(
    {"type", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"}
    | {"ignore_merges", "vocab", "merges"}
)
_HARMLESS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip"})
_SPACES = (
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
)

_SPLITTERS = frozenset({"Metaspace", "ByteLevel", "Whitespace", "WhitespaceSplit", "Digits"})

QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The expression Qwen2's vocabulary cuts a text by: the only one that is let through."""


def checked_tokenizer(content: bytes, source: str) -> str:
    """The file's text without padding, truncation, dropout, post-processing and decoding. Raises UserError naming
    `source` for what no supported family has."""
    if len(content) > MOST_BYTES:
        raise UserError(f"{source} is {len(content):,} bytes long, far too long for a vocabulary.")
    try:
        values = parse_json(content)
        if not isinstance(values, dict) or not isinstance(values.get("model"), dict):
            raise ValueError("it holds no model")
    except ValueError as error:
        raise UserError(f"{source} is no tokenizer file ({str(error)[:100]}); download it again.") from None
    problem = (
        _model_problem(values["model"])
        or _added_problem(values.get("added_tokens"))
        or _normalizer_problem(values.get("normalizer"))
        or _splitter_problem(values.get("pre_tokenizer"))
    )
    if problem:
        raise UserError(f"{source} {problem}, which no supported model needs; download it again.")
    kept = {
        "version": values.get("version", "1.0"),
        "added_tokens": values.get("added_tokens") or [],
        "normalizer": values.get("normalizer"),
        "pre_tokenizer": values.get("pre_tokenizer"),
        "model": {name: value for name, value in values["model"].items() if name in _MODEL_KEYS},
    }
    return json.dumps(kept | dict.fromkeys(("truncation", "padding", "post_processor", "decoder")))


def _model_problem(model: dict[str, Any]) -> str | None:
    kind, pieces = model.get("type", "BPE"), model.get("vocab")
    if kind != "BPE":
        return f"holds a vocabulary of the kind {str(kind)[:40]!r}"
    if not isinstance(pieces, dict) or len(pieces) > _MOST_PIECES:
        return f"holds no table of at most {_MOST_PIECES:,} pieces"
    if max(map(len, pieces), default=0) > _LONGEST_PIECE:
        return f"holds a piece of more than {_LONGEST_PIECE:,} letters"
    texts = [model.get(name) for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")]
    return "holds a prefix or ending without end" if any(_is_long(text, _LONGEST_PIECE) for text in texts) else None


def _added_problem(added: Any) -> str | None:
    if added is None:
        return None
    if not isinstance(added, list) or len(added) > _MOST_ADDED:
        return f"adds no list of at most {_MOST_ADDED:,} tokens"
    found = [entry.get("content") if isinstance(entry, dict) else None for entry in added]
    if any(not isinstance(text, str) or not text or len(text) > _LONGEST_PIECE for text in found):
        return f"adds a token without a text of at most {_LONGEST_PIECE:,} letters"
    return None


def _normalizer_problem(normalizer: Any) -> str | None:
    steps = _steps(normalizer, "normalizers")
    if steps is None:
        return "normalizes texts in too many steps"
    odd = [step for step in steps if step.get("type") not in _HARMLESS and step not in _SPACES]
    return f"normalizes texts by {_named(odd[0])}" if odd else None


def _splitter_problem(splitter: Any) -> str | None:
    steps = _steps(splitter, "pretokenizers")
    if steps is None:
        return "splits texts in too many steps"
    odd = [step for step in steps if not _is_known_splitter(step) or _is_long(step.get("replacement"), 4)]
    return f"splits texts by {_named(odd[0])}" if odd else None


def _is_known_splitter(step: dict[str, Any]) -> bool:
    return step.get("type") in _SPLITTERS or (
        step.get("type") == "Split" and step.get("pattern") == {"Regex": QWEN2_WORDS}
    )


def _steps(value: Any, inner: str) -> list[dict[str, Any]] | None:
    """The steps of one that may be a sequence of others, in order; None for too many, or for anything else."""
    if value is None:
        return []
    found: list[dict[str, Any]] = []
    waiting = [value]
    while waiting:
        step = waiting.pop(0)
        if not isinstance(step, dict):
            return None
        parts = step.get(inner) if step.get("type") == "Sequence" else None
        if isinstance(parts, list):
            waiting = parts + waiting
        else:
            found.append(step)
        if len(waiting) + len(found) > _MOST_STEPS:
            return None
    return found


def _named(step: dict[str, Any]) -> str:
    has_expression = isinstance(step.get("pattern"), dict) and "Regex" in step["pattern"]
    return f"{str(step.get('type'))[:40]!r}" + (" with a regular expression" if has_expression else "")


def _is_long(text: Any, most: int) -> bool:
    return text is not None and (not isinstance(text, str) or len(text) > most)


CHATML_ENDS = ("<|im_end|>", "<|endoftext|>")

_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
"""The bytes that stand for themselves; the others follow from letter 256 on."""


@cache
def _byte_of_letter() -> dict[str, int]:
    others = (value for value in range(256) if value not in _PRINTABLE)
    return {chr(value): value for value in _PRINTABLE} | {chr(256 + place): value for place, value in enumerate(others)}


def byte_level_text(piece: str) -> str:
    """What is shown of a piece: its text, or where it is none by itself its bytes, each as `<0xE2>`."""
    try:
        content = bytes(_byte_of_letter()[letter] for letter in piece)
    except KeyError:
        return piece  # an added token's, which is spelled as it is
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and not is_byte(text) else "".join(f"<0x{value:02X}>" for value in content)


def tokenizer_values(folder: Path) -> dict[str, Any]:
    """A tokenizer.json from `vocab.json`, `merges.txt` and the folder's added tokens. Raises UserError for
    other files."""
    sizes = [_size(folder / name) for name in ("vocab.json", "merges.txt")]
    if sum(sizes) > MOST_BYTES:
        raise UserError(f"{folder / 'vocab.json'} and its merges are {sum(sizes):,} bytes, too many for a vocabulary.")
    try:
        pieces = parse_json((folder / "vocab.json").read_bytes())
        merges = (folder / "merges.txt").read_text(encoding="utf-8").splitlines()
    except ValueError as error:
        raise UserError(f"{folder} has no readable vocabulary ({str(error)[:100]}); download it again.") from None
    return {
        "added_tokens": _added(folder),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN2_WORDS}, "behavior": "Isolated", "invert": False},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": pieces,
            "merges": [line for line in merges if line and not line.startswith("#version")],
        },
    }


def _added(folder: Path) -> list[dict[str, Any]]:
    described = folder / "tokenizer_config.json"
    listed = read_json(described).get("added_tokens_decoder") if described.is_file() else None
    if isinstance(listed, dict) and all(isinstance(entry, dict) for entry in listed.values()):
        found = [(number, entry.get("content"), bool(entry.get("special", True))) for number, entry in listed.items()]
    elif (folder / "added_tokens.json").is_file():
        found = [(number, name, True) for name, number in read_json(folder / "added_tokens.json").items()]
    else:
        found = []
    try:
        ordered = sorted((int(number), content, special) for number, content, special in found)
    except (TypeError, ValueError):
        raise UserError(f"{folder} numbers an added token by no number; download it again.") from None
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return [{"id": number, "content": content, "special": special, **plain} for number, content, special in ordered]


def _size(path: Path) -> int:
    return regular_file(path, "download the checkpoint again").stat().st_size
