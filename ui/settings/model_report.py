"""Whether a folder is a checkpoint, and the model picker's report on one. It uses no Qt.

The report is made of the `inspect` document of a checkpoint, which another process wrote.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.files.whole_file import regular_file
from evprof.core.records import DRAFT, TARGET
from evprof.core.units import memory_text
from evprof.core.vocabulary.families import FAMILIES, family_by_type, family_by_word, family_title
from evprof.view.labels import SHORT_DTYPES
from ui.run_facts.run_text import mode_name

GOOD, WARN, BAD = "good", "warn", "bad"
LOOKING = "Looking…"
WAITING = "Examined when the run has ended."
PENDING = "…"
"""Stands where a figure will be."""

_NAMES = ("Model", "On disk", "Weights", "KV cache", "Activations", "Needed", "Free")


@dataclass(frozen=True)
class ReportLine:
    """One line: a name, a figure, and what it is judged to be ("", GOOD, WARN or BAD)."""

    name: str
    text: str
    role: str = ""
    tip: str = ""


@dataclass(frozen=True)
class ModelReport:
    """Figures, a verdict with its role, the reason for it, and what is wrong with the checkpoint itself."""

    figures: tuple[ReportLine, ...]
    verdict: str
    role: str
    reason: str = ""
    problem: str = ""


def pending_report(*, is_held: bool) -> ModelReport:
    """The same lines without figures, while nothing is known."""
    figures = tuple(ReportLine(name, PENDING) for name in _NAMES)
    return ModelReport(figures, WAITING if is_held else LOOKING, "dim")


def model_report(document: dict[str, Any]) -> ModelReport:
    """The report on an `inspect` document of a checkpoint, or on the `error` that came instead."""
    if "error" in document:
        return ModelReport((), "", BAD, problem=str(document["error"]))
    fit = document["fit"]
    own = next(model for model in fit["models"] if model["role"] == fit["role"])
    free = fit["free_bytes"][own["device"]]
    verdict, role = _verdict(fit, own)
    if "other_error" in document and role == GOOD:
        other = TARGET if own["role"] == DRAFT else DRAFT
        verdict, role = f"Fits alone; the {_model_of(other)} cannot be looked at.", WARN
    problems = document["problems"]
    more = f" And {len(problems) - 1} more problems." if len(problems) > 2 else ""
    return ModelReport(
        figures=(
            ReportLine(_NAMES[0], _content(document), tip=f"{document['parameters']:,} parameters"),
            ReportLine(_NAMES[1], _stored(document)),
            ReportLine(_NAMES[2], _weights(own)),
            ReportLine(_NAMES[3], memory_text(own["kv_bytes"]), tip=_positions(own)),
            ReportLine(_NAMES[4], memory_text(own["activation_bytes"]), tip="the largest moment of vision and prefill"),
            ReportLine(_NAMES[5], _needed(own), BAD if own["total_bytes"] > free else "", tip=_host(own)),
            ReportLine(_NAMES[6], f"{memory_text(free)} on {own['device']}"),
        ),
        verdict=verdict,
        role=role,
        reason=" ".join(part for part in (_reason(fit), _warning(fit, own)) if part),
        problem=problems[0] + more if problems else "",
    )


def _content(document: dict[str, Any]) -> str:
    count = document["parameters"]
    size = f"{count / 1e9:.2f}B" if count >= 1e9 else f"{count / 1e6:.1f}M"
    missing, surplus = len(document["missing"]), len(document["surplus"])
    parts = [family_title(document["family"]), size]
    parts += [f"{missing} missing"] if missing else []
    parts += [f"{surplus} surplus"] if surplus else []
    return " · ".join(parts)


def _stored(document: dict[str, Any]) -> str:
    if document["bytes"] is None:
        return "nothing, random weights"
    dtype = SHORT_DTYPES.get(str(document["dtype"]), document["dtype"])
    return f"{memory_text(document['bytes'])} · {dtype} · {document['tensors']} tensors"


def _weights(model: dict[str, Any]) -> str:
    return f"{memory_text(model['weight_bytes'])} · {model['quantization'] or SHORT_DTYPES.get(model['dtype'], '')}"


def _needed(model: dict[str, Any]) -> str:
    """The most there is at once; weights that are packed on the CPU wait there as they are stored."""
    runs = (model[f"{part}_bytes"] for part in ("weight", "kv", "activation", "alternatives"))
    loads = model["total_bytes"] > sum(runs)
    return memory_text(model["total_bytes"]) + (" while loading" if loads else "")


def _host(model: dict[str, Any]) -> str:
    waiting = model.get("host_bytes")
    return f"and {memory_text(waiting)} of the machine's own memory while weights are packed" if waiting else ""


def _positions(model: dict[str, Any]) -> str:
    counts = model["positions"]
    return (
        f"{sum(counts.values()):,} positions: {counts['visual']:,} of {model['frames']} frames, {counts['text']:,} of "
        "text, "
        f"{counts['answer']:,} to come" + (f", {counts['spare']:,} spare" if counts.get("spare") else "")
    )


def _verdict(fit: dict[str, Any], own: dict[str, Any]) -> tuple[str, str]:
    """The verdict on this side's model: another that does not fit is the other side's matter."""
    other = next((model for model in fit["models"] if model["role"] != own["role"]), None)
    name = "" if other is None else f"the {_model_of(other['role'])}"
    if own["total_bytes"] > fit["free_bytes"][own["device"]]:
        return f"Does not fit on {own['device']}.", BAD
    if fit["placement"] == "both":
        return (f"Fits beside {name}." if other is not None else "Fits."), GOOD
    if fit["placement"] == "in turn":
        return f"Fits, in turn with {name}.", WARN
    return f"Fits, but {name} does not.", WARN


def _reason(fit: dict[str, Any]) -> str:
    """What both need where that is too much, and the cheapest changes in the words of the window."""
    if fit["placement"] == "both":
        return ""
    said = ""
    if fit["placement"] == "in turn":
        totals: dict[str, int] = {}
        for model in fit["models"]:
            totals[model["device"]] = totals.get(model["device"], 0) + model["total_bytes"]
        device, total = next((place, size) for place, size in totals.items() if size > fit["free_bytes"][place])
        said = f"Together they need {memory_text(total)} on {device}. "
    ways = [change_text(way["change"]) for way in fit["advice"]]
    if not ways:
        return f"{said}No arithmetic, quantization or cache makes {'both' if said else 'it'} fit."
    wanted = "For both at once: " if said else "What fits: "
    return f"{said}{wanted}{'; or '.join(ways)}."


def _warning(fit: dict[str, Any], own: dict[str, Any]) -> str:
    """What this side's model is warned about; the other side says its own."""
    return " ".join(sentence for sentence in fit.get("warnings", ()) if own["name"] in sentence)


def _model_of(role: str) -> str:
    return mode_name(role).lower()


def change_text(options: str) -> str:
    """Options of `evprof run` in the words of the window: `--draft-quant int8` is `event model int8`."""
    words = options.split()
    return ", ".join(_one_change(option, value) for option, value in zip(words[::2], words[1::2], strict=True))


def _one_change(option: str, value: str) -> str:
    side, _, what = option.removeprefix("--").partition("-")
    if side in (DRAFT, TARGET):
        shown = SHORT_DTYPES.get(value, value)
        return f"{_model_of(side)} {f'on {shown}' if what == 'device' else f'in {shown}'}"
    known = {
        "--prefill-chunk": f"prefill in chunks of {value}",
        "--cache": f"KV cache {value}",
        "--frames": f"{value} video frames",
        "--event-frames": f"{value} event frames",
    }
    return known.get(option, f"{option} {value}")


_WEIGHTS = ("*.safetensors", "*.bin")

_MOST_BYTES = 1_000_000
"""Of a config.json, which the window reads itself; real ones take a few thousand."""

_LONGEST_NAME = 80


def family_of(folder: str | Path, role: str) -> str:
    """The family of the checkpoint in `folder`. Raises UserError, one sentence, when `role` cannot use it."""
    place = Path(folder)
    model_type = _model_type(place, "checkpoint", "the checkpoint is damaged, copy it again")
    family = family_by_type(str(model_type))
    if family is None:
        known = ", ".join(name for family in FAMILIES.values() for name in family.model_types)
        raise UserError(f"{place}: its model_type is {model_type!r}; {known} can be run.")
    if family.role != role:
        wanted = " or ".join(other.title for other in FAMILIES.values() if other.role == role)
        raise UserError(f"{place}: is of family {family.key}; this side needs a checkpoint of {wanted}.")
    if not _has_weights(place):
        raise UserError(f"{place}: holds no weights (*.safetensors, *.bin); download the checkpoint again.")
    return family.key


def family_named(name: str) -> str | None:
    """The family of a model by what it is called: bundled, `random:…`, or a folder; None where that says nothing."""
    found = None
    if Path(name).is_dir():
        with suppress(UserError):
            found = family_by_type(str(_model_type(Path(name), "", "")))
    elif name.startswith(("random:", "evprof-")):
        found = family_by_word(name)
    return None if found is None else found.key


def clip_problem(folder: str | Path) -> str:
    """Why a folder cannot stand in for a CLIP tower, in a sentence; empty when it looks like one."""
    place = Path(folder)
    try:
        kind = _model_type(place, "CLIP model", "download the CLIP model again")
    except UserError as error:
        return error.sentence
    if kind not in ("clip", "clip_vision_model"):
        return f"{place}: its model_type is {kind!r}; a CLIP model is needed."
    return "" if _has_weights(place) else f"{place}: holds no weights; download the CLIP model again."


def _model_type(place: Path, what: str, remedy: str) -> str | None:
    """What a folder's config.json says it is of. Raises UserError where there is none that can be read."""
    config = place / "config.json"
    if not config.exists():
        raise UserError(f"{place}: holds no config.json; choose the folder of a {what}.")
    try:
        if regular_file(config, remedy).stat().st_size > _MOST_BYTES:
            raise UserError(f"{config}: is far too long for a configuration; {remedy}.")
        described = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{config}: cannot be read as JSON; {remedy}.") from None
    kind = described.get("model_type") if isinstance(described, dict) else None
    return kind if kind is None else str(kind)[:_LONGEST_NAME]


def _has_weights(place: Path) -> bool:
    return any(next(place.glob(pattern), None) for pattern in _WEIGHTS)
