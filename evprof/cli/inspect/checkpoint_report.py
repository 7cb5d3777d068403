"""A checkpoint for people to read in a terminal: what it holds, whether it fits, and how it meets another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.facts import facts_lines
from evprof.core.units import flops_text, memory_text, percent_text

_LABEL = 24
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
_SOMETIMES = ("alternatives", "loading", "host")


_TOLD = {
    *("path", "kind", "schema_version", "family", "model_type", "parameters", "tensors", "missing", "surplus"),
    *("bytes", "dtype", "context_limit", "visual_tokens_per_frame", "architecture", "text", "vision", "flops"),
    *("problems", "assumptions", "fit", "vocabulary", "features"),
    # Where it would lie and what it takes there is told with the fit.
    *("device", "device_dtype", "device_bytes"),
}
"""Keys of the document that have lines of their own."""


def print_checkpoint(document: dict[str, Any], console: Console) -> None:
    """The `inspect` document of a checkpoint."""
    shown = {
        "path": document["path"],
        "family": f"{document['family']} ({document['model_type']})",
        "parameters": f"{document['parameters']:,}",
        "tensors": document["tensors"],
        "missing": _names(document["missing"]),
        "surplus": _names(document["surplus"]),
        "stored": "nothing" if document["bytes"] is None else f"{memory_text(document['bytes'])}, {document['dtype']}",
        "context limit": document["context_limit"],
        "visual tokens per frame": document["visual_tokens_per_frame"],
        **_built_of(document),
    }
    shown |= {name.replace("_", " "): value for name, value in document.items() if name not in _TOLD}
    for line in facts_lines(shown):
        console.print(line)
    _print_sentences("assumptions", document["assumptions"], console)
    _print_sentences("problems", document["problems"], console)
    console.print()
    print_fit(document["fit"], console)
    for name, print_part in (("vocabulary", print_vocabulary), ("features", print_features)):
        if name in document:
            console.print()
            print_part(document[name], console)


def _built_of(document: dict[str, Any]) -> dict[str, str]:
    """What the model is built of and how much it computes."""
    built, text, vision, flops = (document[name] for name in ("architecture", "text", "vision", "flops"))
    return {
        "backbone": built["backbone"],
        "language layers": f"{text['layers']} of {text['hidden']:,}, MLP {text['intermediate']:,}",
        "heads": f"{text['heads']} of {text['head_dim']}, {text['kv_heads']} for keys and values",
        "vocabulary rows": f"{text['vocabulary']:,}",
        "vision tower": f"{built['vision_tower']}; {vision['layers']} layers are read",
        "projector": built["projector"],
        "vision, a frame": flops_text(flops["vision_per_frame"]),
        "prefill": f"{flops_text(flops['prefill'])} for {flops['prefill_positions']:,} positions",
        "a decoded token": f"{flops_text(flops['decode_per_token'])} at {flops['decode_context']:,.0f} positions",
    }


def print_fit(fit: dict[str, Any], console: Console) -> None:
    """A column for each model, then what is free, then the verdict."""
    models = fit["models"]
    rows = [
        ("memory", [model["role"] for model in models]),
        ("  model", [model["name"] for model in models]),
        ("  on", [_place(model) for model in models]),
        ("  frames", [str(model["frames"]) for model in models]),
        ("  positions", [_positions(model["positions"]) for model in models]),
        *(
            (f"  {name}", [memory_text(model[f"{key}_bytes"]) for model in models])
            for name, key in _PARTS
            if key not in _SOMETIMES or any(model[f"{key}_bytes"] for model in models)
        ),
        ("  samples in a batch", [_batch(model["batch_capacity"]) for model in models]),
        ("  positions at most", [f"{model['most_positions']:,}" for model in models]),
        ("  frames at most", [_count(model["most_frames"]) for model in models]),
    ]
    console.table([[f"{name:<{_LABEL - 2}}", *cells] for name, cells in rows])
    assumed = " (assumed)" if fit["is_assumed"] else ""
    for device, free in fit["free_bytes"].items():
        console.print(f"{f'  free on {device}':<{_LABEL}}{memory_text(free)}{assumed}")
    console.print(f"{'  placement':<{_LABEL}}{fit['placement']}")
    console.print()
    for said in (fit["sentence"], *(f"warning: {sentence}" for sentence in fit["warnings"])):
        console.wrapped(said)


def _print_sentences(head: str, sentences: Sequence[str], console: Console) -> None:
    if not sentences:
        return
    console.print(f"{head}:")
    for sentence in sentences:
        console.wrapped(sentence, "  ", "    ")


def _names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f", … ({len(names)} in all)" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _place(model: dict[str, Any]) -> str:
    packed = f", {model['quantization']}" if model["quantization"] else ""
    return f"{model['device']}, {model['dtype']}{packed}"


def _positions(positions: dict[str, int]) -> str:
    return f"{sum(positions.values()):,}: {positions['visual']:,} visual, {positions['text']:,} text"


def _count(value: int | None) -> str:
    return "n/a" if value is None else f"{value:,}"


def _batch(capacity: dict[str, int]) -> str:
    return f"{capacity['real']} ({capacity['naive']} by KV cache alone)"


def print_vocabulary(vocabulary: dict[str, Any], console: Console) -> None:
    """The part "vocabulary" of the `inspect` document of a draft against a target."""
    alignment, shared = vocabulary["alignment"], vocabulary["shared_ids"]
    numbers = "under the same numbers" if vocabulary["same_number"] else "under numbers of their own"
    rows = [
        ("vocabulary against", vocabulary["target"]),
        ("  alignment", f"{alignment}: {_ALIGNMENTS[alignment]}"),
        ("  draft's ids", f"{vocabulary['draft_ids']:,}"),
        ("  target's ids", f"{vocabulary['target_ids']:,}"),
        ("  shared", f"{shared:,}, {numbers}; {percent_text(vocabulary['coverage'], 1)} of the draft's pieces"),
        ("  only the draft's", _listed(vocabulary["only_draft"], vocabulary["only_draft_count"])),
        ("  only the target's", _listed(vocabulary["only_target"], vocabulary["only_target_count"])),
        ("  same number, other", f"{vocabulary['differing_count']:,}"),
    ]
    for name, text in rows:
        console.wrapped(text, f"{name:<{_LABEL}}", " " * _LABEL)
    for entry in vocabulary["differing"]:
        console.print(f"{'':<{_LABEL}}{entry['id']}: {_quoted(entry['draft'])}, {_quoted(entry['target'])}")


def _listed(entries: list[dict[str, Any]], count: int) -> str:
    if not count:
        return "0"
    more = ", …" if count > len(entries) else ""
    return f"{count:,}: " + ", ".join(f"{entry['id']} {_quoted(entry['piece'])}" for entry in entries) + more


def _quoted(piece: str) -> str:
    """A piece of a foreign vocabulary, which may hold anything a terminal would obey."""
    shown = "".join(letter if letter.isprintable() else f"⟨U+{ord(letter):04X}⟩" for letter in piece)
    return f"“{shown}”"


def print_features(features: dict[str, Any], console: Console) -> None:
    """The part "features" of the `inspect` document of a draft against a target; cosines by position are in --json."""
    spaces = features["spaces"]
    rows = [
        ("", [space["space"] for space in spaces]),
        ("draft", [_shape(space["draft_shape"]) for space in spaces]),
        ("target", [_shape(space["target_shape"]) for space in spaces]),
        ("positions compared", [str(space["positions"]) for space in spaces]),
        *((name, [_number(space[key]) for space in spaces]) for name, key in _FIGURES),
    ]
    console.print(f"features of {features['sample']} against {features['target']}")
    console.table([[f"  {name:<36}", *cells] for name, cells in rows])
    console.wrapped(features["definition"])


def _shape(shape: list[int]) -> str:
    return " x ".join(map(str, shape))


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
