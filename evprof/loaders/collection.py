"""A folder of collected examples, as its journal tells: how they were made, which shards there are, what each holds.

It knows no tensor. A line of the journal counts only while the file it names has the bytes it had; of two lines about
one file the later counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.plain import Plain
from evprof.core.sample import Sample
from evprof.loaders.content import content_hash
from evprof.loaders.json_lines import json_line, read_lines

JOURNAL = "collection.jsonl"
VERSION = 1

SHARD_EXAMPLES = 32
SHARD_BYTES = 256 << 20
"""A shard is full at either."""

_MOST_BYTES = 8 << 30
_SHARD_NAME = re.compile(r"shard-\d{5,7}\.safetensors\Z")
_KEY_LETTERS = 32


@dataclass(frozen=True)
class CollectedExample(Plain):
    """One example as the journal tells it.

    `scene` is the same for samples of the same content, `key` for those asked the same question, too; `sample` are its
    facts. `tokens` of the answer, `positions` of the target's prompt; visual positions are [first, count].
    """

    name: str
    key: str
    scene: str
    prompt: str
    tokens: int
    positions: int
    target_visual: tuple[int, int]
    draft_visual: tuple[int, int] | None = None
    sample: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shard:
    """One file of examples; `digest` is the SHA-256 of its bytes. The last one may not be full yet."""

    file: str
    bytes: int
    digest: str
    is_full: bool
    examples: tuple[CollectedExample, ...]


@dataclass
class Collection:
    """`settings` say how the examples were made; `shards` in order; `failed` are rows that gave none, by key."""

    folder: Path
    settings: dict[str, Any]
    shards: dict[str, Shard] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def examples(self) -> list[CollectedExample]:
        return [example for shard in self.shards.values() for example in shard.examples]

    def places(self) -> Iterator[tuple[Shard, int, CollectedExample]]:
        for shard in self.shards.values():
            for number, example in enumerate(shard.examples):
                yield shard, number, example

    def digest(self) -> str:
        """What tells this data from other: a SHA-256 over the shards' own."""
        return hashlib.sha256("".join(shard.digest for shard in self.shards.values()).encode()).hexdigest()

    @property
    def target(self) -> dict[str, Any]:
        """What is known of the target: name, identity, hidden_size, rows, dtype."""
        return dict(self.settings.get("target") or {})

    @property
    def layers(self) -> tuple[int, ...]:
        """Of which of the target's layers examples tell what enters them; the number of layers is what leaves them."""
        found = self.settings.get("layers")
        return tuple(found) if isinstance(found, list) and all(type(layer) is int for layer in found) else ()

    @property
    def draft(self) -> dict[str, Any] | None:
        """The same of the draft; None where none took part."""
        found = self.settings.get("draft")
        return dict(found) if isinstance(found, dict) else None


def is_collection(path: str | Path) -> bool:
    try:
        return (Path(path) / JOURNAL).is_file()
    except (OSError, ValueError):
        return False


def read_collection(folder: str | Path) -> Collection:
    """What the journal of a folder tells of files that are there. Raises UserError when there is none, or it is bad."""
    place = Path(folder)
    path = place / JOURNAL
    if not path.is_file():
        raise UserError(f"{folder}: holds no collected examples; make some with evprof adapter collect.")
    head, lines = read_lines(path, "evprof_collection", VERSION, "collection", "collect into another folder")
    settings = head.get("settings")
    if not isinstance(settings, dict) or not isinstance(settings.get("target"), dict):
        raise UserError(f"{path}: does not say how its examples were made; collect them again.")
    found = Collection(place, settings)
    for values in lines:
        _take(values, found)
    found.shards = {name: found.shards[name] for name in sorted(found.shards) if _is_whole(place, found.shards[name])}
    return found


def scene_of(sample: Sample, *, has_draft: bool = True) -> str:
    """What tells this content from other, whatever is asked about it: a digest of its files and of the clip.

    Without a draft the events do not matter. Reads the files through. Raises UserError when one cannot be read.
    """
    paths = [sample.video_path, sample.video_times_path]
    if has_draft or sample.video_path is None:
        paths += [sample.events_path, sample.rectify_path]
    hashes = [None if path is None else content_hash(path) for path in paths]
    clip = [sample.start_us, sample.duration_us, sample.video_offset_us] if sample.is_clip else None
    return _digest([hashes, clip])


def head_line(settings: dict[str, Any]) -> str:
    return json_line({"evprof_collection": VERSION, "settings": settings})


def shard_line(shard: Shard) -> str:
    examples = [example.to_json() for example in shard.examples]
    return json_line(
        {
            "shard": shard.file,
            "bytes": shard.bytes,
            "sha256": shard.digest,
            "full": shard.is_full,
            "examples": examples,
        }
    )


def failure_line(key: str, sentence: str) -> str:
    return json_line({"failed": key, "error": sentence})


def shard_name(number: int) -> str:
    return f"shard-{number:05}.safetensors"


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_LETTERS]


def _take(values: object, found: Collection) -> None:
    if not isinstance(values, dict):
        return
    key, error = values.get("failed"), values.get("error")
    if isinstance(key, str) and isinstance(error, str):
        found.failed[key] = error
        return
    shard = _shard(values)
    if shard is not None:
        found.shards[shard.file] = shard
        for example in shard.examples:
            found.failed.pop(example.key, None)


def _shard(values: dict[str, Any]) -> Shard | None:
    name, count, digest, examples = (values.get(key) for key in ("shard", "bytes", "sha256", "examples"))
    if not (isinstance(name, str) and _SHARD_NAME.match(name) and isinstance(digest, str)):
        return None
    if type(count) is not int or not 0 < count <= _MOST_BYTES or not isinstance(examples, list):
        return None
    read = [example for values in examples if (example := CollectedExample.if_fitting(values)) is not None]
    if not 0 < len(read) == len(examples) <= SHARD_EXAMPLES or not all(map(_is_sound, read)):
        return None
    return Shard(name, count, digest, bool(values.get("full")), tuple(read))


def _is_sound(example: CollectedExample) -> bool:
    visual = (*example.target_visual, *(example.draft_visual or ()))
    return bool(example.sample) and min(example.tokens, example.positions) >= 1 and min(visual) >= 0


def _is_whole(folder: Path, shard: Shard) -> bool:
    try:
        return (folder / shard.file).stat().st_size == shard.bytes
    except OSError:
        return False
