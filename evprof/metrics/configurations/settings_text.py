"""What was set about a run, in words: rows for one model, a short label for the run, and what tells two runs apart.

Where the engine reported what it took, that is said, not what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any, NamedTuple

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import GenerationSettings
from evprof.core.run_info import ModelFacts
from evprof.core.run_log import RunLog
from evprof.core.speculation import (
    KV_ADAPTED,
    MODEL,
    PAIRED_MODES,
    PARALLEL_PREFILL,
    SpeculationSettings,
)
from evprof.core.switches import InputSettings, Switches
from evprof.view.columns import Column
from evprof.view.labels import SHORT_DTYPES

LOSSY_CACHES = ("fp8", "hqq8", "hqq4")
"""KV caches that keep less than was computed."""

_TAKEN = (("attention", "attention"), ("cache", "KV cache"), ("step", "decode step"))
"""Settings whose "auto" the engine decides; it reports what it took under the same names. With the names of rows."""

_EVENTGPT_ONLY = ("prompt_style", "event_markers", "pooling", "projector")
_GROUPS = ("input", "switches", "speculation")

SPECULATION_KEYS = ("gamma", *(entry.name for entry in fields(SpeculationSettings)))
"""Settings of drafting: they decide when an answer comes, never what it is."""


@dataclass(frozen=True)
class Setting:
    """One thing that was set: a row's `name` and `text`, and what the run's label says (nothing at the default)."""

    key: str
    name: str
    text: str
    label: str = ""

    @property
    def is_default(self) -> bool:
        """Whether nothing needs saying."""
        return not self.label


def flat(settings: dict[str, Any]) -> dict[str, Any]:
    """A run's settings with those of input, switches and speculation beside the others; what is not known stands at its
    default."""
    values: dict[str, Any] = {}
    known: tuple[Any, ...] = (GenerationSettings(), InputSettings(), Switches(), SpeculationSettings())
    groups = [settings, *(settings.get(name) for name in _GROUPS)]
    for defaults, group in zip(known, groups, strict=True):
        given = group if isinstance(group, dict) else {}
        for entry in fields(defaults):
            if entry.name not in _GROUPS:
                values[entry.name] = given.get(entry.name, getattr(defaults, entry.name))
    return values


def may_change_text(key: str, value: Any) -> bool:
    """Whether an optimization at this value may give another answer than without it (beyond rounding)."""
    if key == "cache":
        return value in LOSSY_CACHES
    if key == "visual_keep":
        return bool(value != 1)
    return key in ("early_exit", "quantization") and value is not None


def kind_read(run: RunLog, role: str) -> str:
    """ "events" or "video": the half of the sample that a model of a run reads."""
    values = flat(run.info.settings)
    own, asked = ("events", values["draft_input"]) if role == DRAFT else ("video", values["target_input"])
    return own if asked == "auto" else str(asked)


def settings_of(run: RunLog, role: str) -> tuple[Setting, ...]:
    """Everything set that concerns one model of a run, defaults included, in order of reading."""
    info = run.info
    key = (id(info.settings), role, info.mode)
    known = _known.get(key)
    if known is None or known.settings is not info.settings or known.model is not info.models.get(role):
        known = _Known(info.settings, info.models.get(role), tuple(_settings(run, role)))
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = known
    return known.listed


def told_settings(run: RunLog, role: str) -> tuple[Setting, ...]:
    """Like `settings_of`; of an imported run only what its file gives: what it leaves out, nobody chose."""
    listed = settings_of(run, role)
    if run.info.imported is None:
        return listed
    of_model = ("dtype", "quantization", "device") if role in run.info.models else ()
    return tuple(setting for setting in listed if setting.key in run.info.settings or setting.key in of_model)


class _Known(NamedTuple):
    """What was worked out for a run's settings: lists of runs ask for it many times a second, and it never changes."""

    settings: dict[str, Any]
    model: ModelFacts | None
    listed: tuple[Setting, ...]


_known: dict[tuple[int, str, str], _Known] = {}
_MOST_KNOWN = 2000


def _settings(run: RunLog, role: str) -> list[Setting]:
    values = flat(run.info.settings)
    model = run.info.models.get(role)
    return [
        *_input_settings(values, role, model, kind_read(run, role)),
        *_computing(values, model),
        *_vision(values, role, model),
        *_generation(values, run.info.mode),
    ]


def run_label(runs: Sequence[RunLog]) -> str:
    """`static · compiled · keep 0.5`: what is not at its default in a run, or in a pair that ran side by side.

    A setting that only one of two models has, or that differs between them, is said with its role.
    """
    said: dict[str, dict[str, str]] = {}
    roles: set[str] = set()
    for run in runs:
        for role in _roles(run):
            roles.add(role)
            for setting in settings_of(run, role):
                if not setting.is_default:
                    said.setdefault(setting.key, {})[role] = setting.label
    parts = []
    for key, by_role in said.items():
        words = list(dict.fromkeys(by_role.values()))
        # EventGPT's own settings need no role: no other model has them.
        if len(words) == 1 and (len(by_role) == len(roles) or key in _EVENTGPT_ONLY):
            parts.append(words[0])
        else:
            parts += [f"{role} {word}" for role, word in by_role.items()]
    return " · ".join(parts)


def differences(a: Column | None, b: Column | None) -> list[tuple[Setting, Setting]]:
    """The settings in which two models of two runs differ, in pairs; none within one run.

    Between a draft and a target, what they read and how much of it is no difference of settings.
    """
    if a is None or b is None or a.run is b.run:
        return []
    others = {setting.key: setting for setting in told_settings(*b)}
    passed = () if a.role == b.role else ("reads", "frames")
    return [
        (mine, others[mine.key])
        for mine in told_settings(*a)
        if mine.key in others and mine.text != others[mine.key].text and mine.key not in passed
    ]


def difference_sentence(a: Column | None, b: Column | None) -> str:
    """`KV cache: dynamic → static · decode step: eager → compiled`; empty when nothing differs."""
    return " · ".join(f"{mine.name}: {mine.text} → {theirs.text}" for mine, theirs in differences(a, b))


def _roles(run: RunLog) -> tuple[str, ...]:
    own = run.info.role
    return (DRAFT, TARGET) if run.info.mode in PAIRED_MODES and DRAFT in run.info.models else (own,)


def _input_settings(values: dict[str, Any], role: str, model: ModelFacts | None, read: str) -> Iterator[Setting]:
    is_own = read == ("events" if role == DRAFT else "video")
    yield Setting("reads", "reads", read, "" if is_own else f"reads {read}")
    frames = values["event_frames" if role == DRAFT else "frames"]
    counted = "" if frames is None else f"{frames} frame" + ("" if frames == 1 else "s")
    yield Setting("frames", "frames", counted or "model's own", counted)
    if read == "events":
        canvas = str(values["canvas"])
        yield Setting("canvas", "event canvas", canvas, "" if canvas == "auto" else f"canvas {canvas}")
    if _is_eventgpt(role, model):
        style = str(values["prompt_style"])
        yield Setting("prompt_style", "prompt", style, "" if style == "released" else f"{style} prompt")
        if style == "released":
            marked = bool(values["event_markers"])
            yield Setting("event_markers", "event markers", "on" if marked else "off", "" if marked else "no markers")
        pooled = values["pooling"] != "none"
        yield Setting("pooling", "pooling", str(values["pooling"]), "" if pooled else "unpooled")
    elif model is not None and model.family == "llava":
        layout = str(values["image_layout"])
        yield Setting("image_layout", "image layout", layout, "" if layout == "frames" else layout)


def _computing(values: dict[str, Any], model: ModelFacts | None) -> Iterator[Setting]:
    if model is not None:
        kept = model.quantization
        yield Setting("dtype", "arithmetic", SHORT_DTYPES.get(model.dtype, model.dtype))
        yield Setting("device", "device", model.device)
        yield Setting("quantization", "weights", kept or "as loaded", kept or "")
    for key, name in _TAKEN:
        yield _taken(key, name, str(values[key]), model)
    chunk = values["prefill_chunk"]
    yield Setting(
        "prefill_chunk", "prefill", f"{chunk} at a time" if chunk else "all at once", f"chunk {chunk}" if chunk else ""
    )
    layer, sure = values["early_exit"], _number(values["exit_confidence"])
    leaves = layer is not None
    yield Setting(
        "early_exit",
        "early exit",
        f"layer {layer} when {sure} sure" if leaves else "off",
        f"exit {layer} at {sure}" if leaves else "",
    )


def _taken(key: str, name: str, asked: str, model: ModelFacts | None) -> Setting:
    """One of `_TAKEN`: labelled only when it was asked for; what was taken instead stands behind an arrow."""
    took = asked if model is None else str(getattr(model, key))
    label = ""
    if asked != "auto":
        label = _label_of(key, asked) if took == asked else f"{_label_of(key, asked)} → {took}"
    return Setting(key, name, took, label)


def _label_of(key: str, value: str) -> str:
    """A word that is clear without its row: two settings may be "eager"."""
    if value == "eager":
        return "eager attention" if key == "attention" else "eager step"
    return f"{value} cache" if value in LOSSY_CACHES else value


_PLACES = {"off": "as they are", "warm": "in memory", "cold": "on disk"}


def _vision(values: dict[str, Any], role: str, model: ModelFacts | None) -> Iterator[Setting]:
    kept = values["vision_cache"]
    label = {"off": "", "memory": "vision cache"}.get(kept, f"vision cache on {kept}")
    yield Setting("vision_cache", "vision cache", str(kept), label)
    frames = values["frame_cache"]
    yield Setting("frame_cache", "frame cache", str(frames), "" if frames == "off" else "frame cache")
    files = values["prefetch"]
    yield Setting("prefetch", "input files", _PLACES.get(files, str(files)), "" if files == "off" else f"{files} files")
    decoder = str(values["video_decoder"])
    yield Setting("video_decoder", "video decoder", decoder, "" if decoder == "auto" else decoder)
    share = values["visual_keep"]
    if share == 1:
        yield Setting("visual_keep", "tokens kept", "all")
    else:
        by = values["prune_by"]
        more = "" if by == Switches().prune_by else f" by {by}"
        yield Setting("visual_keep", "tokens kept", f"{_number(share)} by {by}", f"keep {_number(share)}{more}")
    if _is_eventgpt(role, model):
        projector = str(values["projector"])
        yield Setting("projector", "projector", projector, "" if projector == "reference" else f"{projector} projector")


def _generation(values: dict[str, Any], mode: str) -> Iterator[Setting]:
    degree = values["temperature"]
    yield Setting(
        "temperature",
        "temperature",
        _number(degree) if degree else "0 (greedy)",
        f"temperature {_number(degree)}" if degree else "",
    )
    if degree:
        for key, off in (("top_p", 1), ("top_k", 0), ("seed", 0)):
            name, value = key.replace("_", "-"), _number(values[key])
            yield Setting(key, name, value, "" if values[key] == off else f"{name} {value}")
    past = bool(values["ignore_eos"])
    yield Setting("ignore_eos", "end of sequence", "ignored" if past else "ends the answer", "past the end" * past)
    yield Setting("max_new_tokens", "most tokens", str(values["max_new_tokens"]))
    if mode in PAIRED_MODES:
        yield from _speculation(values, mode)


def _speculation(values: dict[str, Any], mode: str) -> Iterator[Setting]:
    """Who drafts, how much at a time, and what concerns parallel prefill where it does."""
    adapter = values["adapter"]
    trained = PurePath(str(adapter).rstrip("/\\")).name if adapter else ""
    if mode == KV_ADAPTED:
        yield Setting("adapter", "cache map", trained or "none", trained)
        return
    drafter = str(values["drafter"])
    named = f"{drafter} {trained}".rstrip()
    yield Setting("drafter", "drafter", named, "" if named == MODEL else named)
    is_parallel = mode == PARALLEL_PREFILL
    if not is_parallel or values["afterwards"] == "rounds":
        yield from _rounds(values)
    if is_parallel:
        yield from _parallel(values)


def _rounds(values: dict[str, Any]) -> Iterator[Setting]:
    length, tree = str(values["length"]), str(values["tree"])
    if tree:
        yield Setting("tree", "draft tree", tree, f"tree {tree}")
        return
    yield Setting("gamma", "drafted per round", str(values["gamma"]))
    yield Setting("length", "draft length", length, "" if length == "fixed" else f"{length} length")


def _parallel(values: dict[str, Any]) -> Iterator[Setting]:
    defaults = SpeculationSettings()
    begins, hidden = str(values["begins"]), values["hidden"]
    yield Setting("begins", "draft begins", f"with {begins}", "" if begins == defaults.begins else f"from {begins}")
    yield Setting("hidden", "hidden tokens", "as time allows" if hidden is None else str(hidden), _hidden_label(hidden))
    verify, then = str(values["verify"]), str(values["afterwards"])
    yield Setting("verify", "verified", _VERIFIED.get(verify, verify), "" if verify == defaults.verify else verify)
    yield Setting("afterwards", "afterwards", then, "" if then == defaults.afterwards else f"then {then}")


_VERIFIED = {"after": "after prefill", "last-chunk": "in the last chunk"}


def _hidden_label(hidden: int | None) -> str:
    return "" if hidden is None else f"{hidden} hidden"


def _is_eventgpt(role: str, model: ModelFacts | None) -> bool:
    return role == DRAFT if model is None else model.family == "eventgpt"


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)
