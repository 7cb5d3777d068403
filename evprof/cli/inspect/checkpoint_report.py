"""A checkpoint for people to read in a terminal: what it holds, and whether it fits."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.facts import facts_lines
from evprof.core.units import flops_text, memory_text

_LABEL = 24
_WIDTH = 110
_NAMES = 10
"""Tensors named of those missing or too many."""

_PARTS = (
    ("weights", "weight"),
    ("KV cache", "kv"),
    ("activations", "activation"),
    ("waiting to be packed", "loading"),
    ("packed on the host", "host"),
    ("most at once", "total"),
)
_SOMETIMES = ("loading", "host")


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
    known = {"family", "model_type", "parameters", "tensors", "missing", "surplus", "bytes", "dtype", "context_limit"}
    known |= {
        "visual_tokens_per_frame",
        "path",
        "kind",
        "schema_version",
        "problems",
        "assumptions",
        "fit",
        "vocabulary",
        "architecture",
        "text",
        "vision",
        "flops",
        "features",
    }
    # Where it would lie and what it takes there stands below.
    known |= {"device", "device_dtype", "device_bytes"}
    shown |= {name.replace("_", " "): value for name, value in document.items() if name not in known}
    for line in facts_lines(shown):
        console.print(line)
    _print_sentences("assumptions", document["assumptions"], console)
    _print_sentences("problems", document["problems"], console)
    console.print()
    print_fit(document["fit"], console)


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
    ]
    widths = [max(len(cells[index]) for _, cells in rows) for index in range(len(models))]
    for name, cells in rows:
        line = "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        console.print(f"{name:<{_LABEL}}{line}".rstrip())
    assumed = " (assumed)" if fit["is_assumed"] else ""
    for device, free in fit["free_bytes"].items():
        console.print(f"{f'  free on {device}':<{_LABEL}}{memory_text(free)}{assumed}")
    console.print(f"{'  placement':<{_LABEL}}{fit['placement']}")
    console.print()
    for said in (fit["sentence"], *(f"warning: {sentence}" for sentence in fit["warnings"])):
        console.print(textwrap.fill(said, _WIDTH, break_long_words=False, break_on_hyphens=False))


def _print_sentences(head: str, sentences: Sequence[str], console: Console) -> None:
    if not sentences:
        return
    console.print(f"{head}:")
    for sentence in sentences:
        console.print(
            textwrap.fill(
                sentence,
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def _names(names: Sequence[str]) -> str:
    if not names:
        return "none"
    more = f", … ({len(names)} in all)" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _place(model: dict[str, Any]) -> str:
    packed = f", {model['quantization']}" if model["quantization"] else ""
    return f"{model['device']}, {model['dtype']}{packed}"


def _positions(positions: dict[str, int]) -> str:
    return f"{sum(positions.values())}: {positions['visual']} visual, {positions['text']} text"


def _batch(capacity: dict[str, int]) -> str:
    return f"{capacity['real']} ({capacity['naive']} by KV cache alone)"
