"""What `evprof inspect` prints of a checkpoint and of the models that can be named; the document of a list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console, shown
from evprof.cli.terminal.tables import print_rows
from evprof.core.files.user_folders import hub_cache_folder
from evprof.core.units import memory_text
from evprof.core.vocabulary.families import FAMILIES, family_by_type
from evprof.loaders.adapters import AdapterInfo, bundled_adapters

_PARTS = (
    ("weights", "weight"),
    ("KV cache", "kv"),
    ("activations", "activation"),
    ("logits of alternatives", "alternatives"),
    ("waiting to be packed", "loading"),
    ("packed on the host", "host"),
    ("most at once", "total"),
)
_SOMETIMES = ("alternatives", "loading", "host")

_ELSEWHERE = ("schema_version", "problems", "assumptions", "fit", "device", "device_dtype", "device_bytes")
"""Keys of the document that stand below the facts."""


def print_checkpoint(document: dict[str, Any], console: Console) -> None:
    console.facts({name: value for name, value in document.items() if name not in _ELSEWHERE})
    console.sentences("assumptions", document["assumptions"])
    console.sentences("problems", document["problems"])
    console.print()
    _print_fit(document["fit"], console)


def _print_fit(fit: dict[str, Any], console: Console) -> None:
    models = fit["models"]
    rows = [
        ("memory", [model["role"] for model in models]),
        ("model", [model["name"] for model in models]),
        ("on", [", ".join(filter(None, (model["device"], model["dtype"], model["quantization"]))) for model in models]),
        ("frames", [str(model["frames"]) for model in models]),
        ("positions", [_positions(model["positions"]) for model in models]),
        *(
            (name, [memory_text(model[f"{key}_bytes"]) for model in models])
            for name, key in _PARTS
            if key not in _SOMETIMES or any(model[f"{key}_bytes"] for model in models)
        ),
        (
            "samples in a batch",
            ["{real} ({naive} by KV cache alone)".format(**model["batch_capacity"]) for model in models],
        ),
        ("positions at most", [f"{model['most_positions']:,}" for model in models]),
        ("frames at most", [shown("", model["most_frames"]) for model in models]),
    ]
    assumed = " (assumed)" if fit["is_assumed"] else ""
    rows += [(f"free on {device}", [memory_text(free) + assumed]) for device, free in fit["free_bytes"].items()]
    rows.append(("placement", [fit["placement"]]))
    console.table([[name, *cells, *[""] * (len(models) - len(cells))] for name, cells in rows])
    console.print()
    for sentence in (fit["sentence"], *(f"warning: {warning}" for warning in fit["warnings"])):
        console.wrapped(sentence)


def _positions(positions: dict[str, int]) -> str:
    return f"{sum(positions.values()):,}: {positions['visual']:,} visual, {positions['text']:,} text"


def describe_manifest(path: str) -> dict[str, Any]:
    """The `inspect` document of a list of samples. Raises UserError when it cannot be read."""
    from evprof.loaders.manifests.manifest import read_manifest

    found = read_manifest(Path(path))
    events = [sample.events_path is not None for sample in found.samples]
    video = [sample.video_path is not None for sample in found.samples]
    return {
        "schema_version": 1,
        "path": path,
        "kind": "manifest",
        "problems": list(found.problems),
        "format": found.kind,
        "rows": found.rows,
        "samples": len(found.samples),
        "with_events": sum(events),
        "with_video": sum(video),
        "with_both": sum(both[0] and both[1] for both in zip(events, video, strict=True)),
        "with_reference": sum(sample.reference is not None for sample in found.samples),
        "clips": sum(sample.is_clip for sample in found.samples),
        "prompts": len({sample.prompt for sample in found.samples}),
    }


def print_models(console: Console) -> None:
    document = list_models()
    if console.is_json:
        console.document(document)
        return
    print_rows(console, document["families"], ("name", "description"), title="families")
    print_rows(console, document["models"], ("name", "role", "reads", "place", "bytes"), title="models")
    print_rows(console, document["adapters"], title="trained adapters (--drafter)")


def list_models() -> dict[str, Any]:
    from engines import CATALOGUE, bundled_folder

    listed = []
    for entry in CATALOGUE:
        folder = bundled_folder(entry.name)
        place = "random weights" if entry.is_random else "bundled" if folder else "missing"
        listed.append(_entry(entry.name, entry.family, place, folder, entry.sentence))
    return {
        "schema_version": 1,
        "families": [
            {"name": family.key, "description": family.description, "reads": family.reads}
            for family in FAMILIES.values()
        ],
        "models": [*listed, *_cached_models()],
        "adapters": [_adapter(info) for info in bundled_adapters()],
    }


def _adapter(info: AdapterInfo) -> dict[str, Any]:
    size = sum(path.stat().st_size for path in info.folder.iterdir() if path.is_file())
    return {"name": info.name, "kind": info.kind, "target": info.target, "draft": info.draft, "bytes": size}


def _cached_models() -> list[dict[str, Any]]:
    """Checkpoints of known families in the Hugging Face cache."""
    listed = []
    for config in sorted(hub_cache_folder().glob("models--*/snapshots/*/config.json")):
        try:
            model_type = str(json.loads(config.read_text(encoding="utf-8")).get("model_type", ""))
        except (OSError, ValueError, AttributeError):
            continue
        family = family_by_type(model_type)
        if family is not None:
            name = config.parents[2].name.removeprefix("models--").replace("--", "/")
            listed.append(_entry(name, family.key, "cached", config.parent, ""))
    return listed


def _entry(name: str, family: str, place: str, folder: Path | None, sentence: str) -> dict[str, Any]:
    weights = [*folder.glob("*.safetensors"), *folder.glob("*.bin")] if folder else []
    return {
        "name": name,
        "family": family,
        "reads": FAMILIES[family].reads,
        "role": FAMILIES[family].role,
        "place": place,
        "path": str(folder) if folder else None,
        "bytes": sum(path.stat().st_size for path in weights if path.exists()) if folder else None,
        "description": sentence,
    }
