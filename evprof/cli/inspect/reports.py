"""What `evprof inspect` prints of checkpoints and lists of samples, and of the models that can be named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.tables import Column, PrintedTable, filled, print_blocks
from evprof.core.files.user_folders import hub_cache_folder
from evprof.core.texts import visible
from evprof.core.units import flops_text, memory_text, percent_text
from evprof.core.vocabulary.families import FAMILIES, family_by_type
from evprof.loaders.adapters import AdapterInfo, bundled_adapters

_NAMES = 10
"""Tensors named of those missing or too many."""

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

_ALIGNMENTS = {
    "same": "every id means the same in both",
    "shared": "ids that mean the same are mapped onto each other, others are masked",
    "re-encoded": "too few ids mean the same: text passes between the models, not ids",
}

_FIGURES = (
    ("mean cosine", "mean_cosine"),
    ("mean cosine, different positions", "mean_cosine_elsewhere"),
    ("linear CKA", "cka"),
    ("linear CKA, debiased", "cka_debiased"),
    ("linear CKA, target's rows shuffled", "cka_shuffled"),
)

_SHOWN = {
    *("path", "kind", "schema_version", "family", "model_type", "parameters", "tensors", "missing", "surplus"),
    *("bytes", "dtype", "context_limit", "visual_tokens_per_frame", "architecture", "text", "vision", "flops"),
    *("problems", "assumptions", "fit", "vocabulary", "features"),
    # The fit has these.
    *("device", "device_dtype", "device_bytes"),
}
"""Keys of the document that have lines of their own."""


def print_checkpoint(document: dict[str, Any], console: Console) -> None:
    built, text, vision, flops = (document[name] for name in ("architecture", "text", "vision", "flops"))
    stored = document["bytes"]
    shown = {
        "path": document["path"],
        "family": f"{document['family']} ({document['model_type']})",
        "parameters": document["parameters"],
        "tensors": document["tensors"],
        "missing": _names(document["missing"]),
        "surplus": _names(document["surplus"]),
        "stored": "nothing" if stored is None else f"{memory_text(stored)}, {document['dtype']}",
        "context limit": document["context_limit"],
        "visual tokens per frame": document["visual_tokens_per_frame"],
        "backbone": built["backbone"],
        "language layers": f"{text['layers']} of {text['hidden']:,}, MLP {text['intermediate']:,}",
        "heads": f"{text['heads']} of {text['head_dim']}, {text['kv_heads']} for keys and values",
        "vocabulary rows": text["vocabulary"],
        "vision tower": f"{built['vision_tower']}; {vision['layers']} layers are read",
        "projector": built["projector"],
        "vision, a frame": flops_text(flops["vision_per_frame"]),
        "prefill": f"{flops_text(flops['prefill'])} for {flops['prefill_positions']:,} positions",
        "a decoded token": f"{flops_text(flops['decode_per_token'])} at {flops['decode_context']:,.0f} positions",
    }
    console.facts(shown | {name.replace("_", " "): value for name, value in document.items() if name not in _SHOWN})
    console.sentences("assumptions", document["assumptions"])
    console.sentences("problems", document["problems"])
    console.print()
    _print_fit(document["fit"], console)
    for name, print_part in (("vocabulary", _print_vocabulary), ("features", _print_features)):
        if name in document:
            console.print()
            print_part(document[name], console)


def _names(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more if names else "none"


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
            [filled("{batch_capacity[real]} ({batch_capacity[naive]} by KV cache alone)", model) for model in models],
        ),
        ("positions at most", [f"{model['most_positions']:,}" for model in models]),
        ("frames at most", [filled("{most_frames:,}", model) for model in models]),
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


def _print_vocabulary(vocabulary: dict[str, Any], console: Console) -> None:
    alignment = vocabulary["alignment"]
    numbers = "under the same numbers" if vocabulary["same_number"] else "under numbers of their own"
    share = percent_text(vocabulary["coverage"], 1)
    rows = [
        ("vocabulary against", vocabulary["target"]),
        ("alignment", f"{alignment}: {_ALIGNMENTS[alignment]}"),
        ("draft's ids", f"{vocabulary['draft_ids']:,}"),
        ("target's ids", f"{vocabulary['target_ids']:,}"),
        ("shared", f"{vocabulary['shared_ids']:,}, {numbers}; {share} of the draft's pieces"),
        ("only the draft's", _listed(vocabulary["only_draft"], vocabulary["only_draft_count"])),
        ("only the target's", _listed(vocabulary["only_target"], vocabulary["only_target_count"])),
        ("same number, other", f"{vocabulary['differing_count']:,}"),
    ]
    rows += [
        ("", f"{entry['id']}: {_quoted(entry['draft'])}, {_quoted(entry['target'])}")
        for entry in vocabulary["differing"]
    ]
    console.table(rows, left=2)


def _listed(entries: list[dict[str, Any]], count: int) -> str:
    if not count:
        return "0"
    more = ", …" if count > len(entries) else ""
    return f"{count:,}: " + ", ".join(f"{entry['id']} {_quoted(entry['piece'])}" for entry in entries) + more


def _quoted(piece: str) -> str:
    """A piece of a foreign vocabulary, without line ends."""
    return f"“{visible(piece).replace(chr(10), '⟨U+000A⟩').replace(chr(9), '⟨U+0009⟩')}”"


def _print_features(features: dict[str, Any], console: Console) -> None:
    """The part "features" of the `inspect` document of a draft against a target; cosines by position are in --json."""
    spaces = features["spaces"]
    rows = [
        ("", [space["space"] for space in spaces]),
        ("draft", [" x ".join(map(str, space["draft_shape"])) for space in spaces]),
        ("target", [" x ".join(map(str, space["target_shape"])) for space in spaces]),
        ("positions compared", [str(space["positions"]) for space in spaces]),
        *((name, ["n/a" if space[key] is None else f"{space[key]:.3f}" for space in spaces]) for name, key in _FIGURES),
    ]
    console.print(f"features of {features['sample']} against {features['target']}")
    console.table([[name, *cells] for name, cells in rows], indent=2)
    console.wrapped(features["definition"])


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


_SHARES = {
    "with events": "with_events",
    "with video": "with_video",
    "with both": "with_both",
    "with a reference answer": "with_reference",
    "clips": "clips",
}


def print_manifest(document: dict[str, Any], console: Console) -> None:
    samples = document["samples"]
    shown = {name: document[name] for name in ("path", "kind", "format", "rows", "samples")}
    for label, key in _SHARES.items():
        count = document[key]
        if count or key != "clips":
            shown[label] = f"{count:,} ({percent_text(count / samples)})" if 0 < count < samples else count
    console.facts(shown | {"different prompts": document["prompts"]})
    console.sentences("problems", document["problems"])


_MODELS: tuple[Column, ...] = (
    ("MODEL", "{name}"),
    ("role", "{role}"),
    ("reads", "{reads}"),
    ("where", "{place}"),
    ("size on disk", "{bytes:bytes}"),
)
_ADAPTERS: tuple[Column, ...] = (
    ("ADAPTER", "{name}"),
    ("kind", "{kind}"),
    ("drafts for", "{target}"),
    ("with", lambda row: row["draft"] or "none"),
    ("size on disk", "{bytes:bytes}"),
)


def print_models(console: Console) -> None:
    document = list_models()
    if console.is_json:
        console.document(document)
        return
    families: tuple[Column, ...] = (("FAMILY", "{name}"), ("", "{description}"))
    print_blocks([PrintedTable(families, document["families"], left=2), ""], console)
    print_blocks([PrintedTable(_MODELS, document["models"], missing="n/a", left=4)], console)
    if document["adapters"]:
        adapters = PrintedTable(_ADAPTERS, document["adapters"], left=4)
        print_blocks(["\nTrained adapters (--drafter)", adapters], console)


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
