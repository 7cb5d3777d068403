"""Vocabularies of bytes, as GPT-2's and Qwen2's: how their pieces are spelled, and their two older files.

Every byte is written as one printable letter. A piece need not be whole characters, so what it says may be known only
with the next one.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from engines.checkpoints.json_file import parse_json, read_json
from engines.tokens.tokenizer_file import MOST_BYTES, QWEN2_WORDS
from evprof.core.errors import UserError
from evprof.core.files.regular_file import regular_file
from evprof.core.text import is_byte

CHATML_ENDS = ("<|im_end|>", "<|endoftext|>")
"""What ends a turn, and what ends a text: answers end in either. Nothing begins a text."""

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
    """What a tokenizer.json would say, from `vocab.json` and `merges.txt` and the tokens the folder adds to them.

    Raises UserError for files that cannot be that.
    """
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
    """The added tokens by number: tokenizer_config.json's, else added_tokens.json's, all of which are special."""
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
