"""What of a `tokenizer.json` is handed to the tokenizers library: the parts Llama's and Qwen2's are made of, checked.

The format can also hold regular expressions that take for ever, replacements that make a sentence into gigabytes, and
paddings of any length. Vocabularies of the supported families need none of them, but for one expression that is known;
a file that does is refused.
"""

from __future__ import annotations

import json
from typing import Any

from engines.checkpoints.json_file import parse_json
from evprof.core.errors import UserError

MOST_BYTES = 25_000_000
"""Of a tokenizer.json; Llama's take two to ten million. Parsed, a file takes some twenty times its size."""

_MOST_PIECES = 1_000_000
_MOST_ADDED = 20_000
_LONGEST_PIECE = 1_000
_MOST_STEPS = 10
_MOST_GROWTH = 16
"""How many letters one letter may become on its way; Llama's space becomes one `▁`."""

_MODEL_KEYS = frozenset(
    {"type", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback"}
    | {"ignore_merges", "vocab", "merges"}
)
_HARMLESS = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip"})
_SPLITTERS = frozenset({"Metaspace", "ByteLevel", "Whitespace", "WhitespaceSplit", "Digits"})

QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The expression Qwen2's vocabulary cuts a text by: the only one that is let through."""


def checked_tokenizer(content: bytes, source: str) -> str:
    """The file's text as the library gets it: without padding, truncation, dropout and what decodes or frames a text,
    none of which is ours to use. Raises UserError naming `source` for what no supported family has."""
    if len(content) > MOST_BYTES:
        raise UserError(f"{source} is {len(content):,} bytes long, far too long for a vocabulary.")
    try:
        values = parse_json(content)
        if not isinstance(values, dict) or not isinstance(values.get("model"), dict):
            raise ValueError("it holds no model")
    except ValueError as error:
        raise UserError(f"{source} is no tokenizer file ({str(error)[:100]}); download it again.") from None
    problem = _problem(values)
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


def _problem(values: dict[str, Any]) -> str | None:
    """What is wrong with a file, in words that follow its name; None where nothing is."""
    return (
        _model_problem(values["model"])
        or _added_problem(values.get("added_tokens"))
        or _normalizer_problem(values.get("normalizer"))
        or _splitter_problem(values.get("pre_tokenizer"))
    )


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
    growth = 1.0
    for step in steps:
        kind = step.get("type")
        if kind == "Prepend" and not _is_long(step.get("prepend", ""), _MOST_GROWTH):
            continue
        if kind == "Replace" and (factor := _growth(step)) is not None:
            growth *= max(1.0, factor)
        elif kind not in _HARMLESS:
            return f"normalizes texts by {_named(step)}"
    return f"makes more than {_MOST_GROWTH:,} letters of one" if growth > _MOST_GROWTH else None


def _growth(step: dict[str, Any]) -> float | None:
    """How many letters each letter of what is replaced becomes; None for anything but a text for a text."""
    pattern, content = step.get("pattern"), step.get("content")
    wanted = pattern.get("String") if isinstance(pattern, dict) else None
    if not isinstance(wanted, str) or not wanted or not isinstance(content, str):
        return None
    return len(content.encode("utf-8", "surrogatepass")) / len(wanted)


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
