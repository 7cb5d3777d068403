"""The models and adapters that can be named, as `evprof inspect` without a path lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evprof.cli.terminal.blocks import Block, Column, PrintedTable, print_blocks
from evprof.cli.terminal.console import Console
from evprof.core.files.user_folders import hub_cache_folder
from evprof.core.vocabulary.families import FAMILIES, family_by_type
from evprof.loaders.adapters import AdapterInfo, bundled_adapters

_MODELS: tuple[Column, ...] = (
    ("  MODEL", "  {name}"),
    ("role", "{role}"),
    ("reads", "{reads}"),
    ("where", "{place}"),
    ("size on disk", "{bytes:bytes}"),
)
_ADAPTERS: tuple[Column, ...] = (
    ("  ADAPTER", "  {name}"),
    ("kind", "{kind}"),
    ("drafts for", "{target}"),
    ("with", lambda row: row["draft"] or "none"),
    ("size on disk", "{bytes:bytes}"),
)


def print_models(console: Console) -> None:
    """Prints the families, models and adapters without loading any."""
    document = list_models()
    if console.is_json:
        console.document(document)
        return
    console.print("Families")
    names = max(len(family["name"]) for family in document["families"])
    for family in document["families"]:
        console.folded(f"  {family['name']:<{names}}  {family['description']}")
    blocks: list[Block] = ["\nModels", PrintedTable(_MODELS, document["models"], missing="n/a", left=4)]
    if document["adapters"]:
        blocks += ["\nTrained adapters (--drafter)", PrintedTable(_ADAPTERS, document["adapters"], left=4)]
    print_blocks(blocks, console)


def list_models() -> dict[str, Any]:
    """The document: families, and every model that can be named."""
    from engines import CATALOGUE, bundled_folder

    listed = []
    for entry in CATALOGUE:
        folder = bundled_folder(entry.name)
        place = "random weights" if entry.is_random else "bundled" if folder else "missing"
        listed.append(_entry(entry.name, entry.family, place, folder, entry.sentence))
    listed += cached_models()
    return {
        "schema_version": 1,
        "families": [
            {"name": family.key, "description": family.description, "reads": family.reads}
            for family in FAMILIES.values()
        ],
        "models": listed,
        "adapters": [_adapter(info) for info in bundled_adapters()],
    }


def _adapter(info: AdapterInfo) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in info.folder.iterdir() if path.is_file())
    return {"name": info.name, "kind": info.kind, "target": info.target, "draft": info.draft, "bytes": size}


def cached_models() -> list[dict[str, Any]]:
    """Checkpoints of known families in the Hugging Face cache."""
    found = []
    for config in sorted(hub_cache_folder().glob("models--*/snapshots/*/config.json")):
        try:
            model_type = str(json.loads(config.read_text(encoding="utf-8")).get("model_type", ""))
        except (OSError, ValueError, AttributeError):
            continue
        family = family_by_type(model_type)
        if family is not None:
            name = config.parents[2].name.removeprefix("models--").replace("--", "/")
            found.append(_entry(name, family.key, "cached", config.parent, ""))
    return found


def _entry(name: str, family: str, place: str, folder: Path | None, sentence: str) -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "reads": FAMILIES[family].reads,
        "role": FAMILIES[family].role,
        "place": place,
        "path": str(folder) if folder else None,
        "bytes": _weight_bytes(folder) if folder else None,
        "description": sentence,
    }


def _weight_bytes(folder: Path) -> int:
    """Bytes of the weight files; the cache's links are followed."""
    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    return sum(path.stat().st_size for path in files if path.exists())
