"""Which file of a checkpoint folder holds its vocabulary, and that vocabulary, read."""

from __future__ import annotations

import json
from pathlib import Path

from engines.checkpoints.json_file import read_json
from engines.tokens.byte_level import tokenizer_values
from engines.tokens.sentencepiece_file import MOST_BYTES as MOST_MODEL_BYTES
from engines.tokens.tokenization import FileVocabulary, SentencePieceVocabulary, Vocabulary
from engines.tokens.tokenizer_file import MOST_BYTES as MOST_JSON_BYTES
from evprof.core.errors import UserError
from evprof.core.files.regular_file import regular_file

_MODEL, _FILE, _PIECES, _MERGES = "tokenizer.model", "tokenizer.json", "vocab.json", "merges.txt"


def read_vocabulary(folder: Path, *, prefer_file: bool, rows: int | None = None) -> Vocabulary:
    """The vocabulary of a checkpoint: `tokenizer.json` first when `prefer_file`, else `tokenizer.model` first, else
    `vocab.json` with `merges.txt`.

    Tokens of an added_tokens.json join a `tokenizer.model` as far as the model has `rows` for them. Raises UserError
    when the folder has none of them.
    """
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
