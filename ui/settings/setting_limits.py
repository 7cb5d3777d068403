"""Which settings make no sense just now, and why in one sentence; such settings keep their place and do not run.

It knows modes, families and settings, and no widget. What only a machine can refuse is the engine's to say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from evprof.core.records import DRAFT, TARGET
from evprof.core.request import input_of, roles_of
from evprof.core.vocabulary.drafters import EAGLE, KV, MODEL
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings
from ui.settings.controls import DRAFTER, MEASURING, SPECULATION, controls, default_of, value_of, with_value
from ui.settings.drafter_choice import Drafter, bundled_map, chosen, mismatch

_EVENTGPT_ONLY = ("event_markers", "event_frames", "pooling", "projector", "prompt_style", "draft_input")
_TARGET_ONLY = ("frames", "image_layout", "target_input")
_OF_ROUNDS, _OF_PARALLEL_PREFILL = (tuple(control.key for control in group.controls) for group in SPECULATION)


@dataclass(frozen=True)
class Circumstances:
    """What a setting's sense depends on. `target_family` is None while it is not known; `has_cuda` is False only where
    no model that will run can be on a CUDA device. `draft` and `target` are the models' names, empty where unknown."""

    mode: str
    settings: GenerationSettings
    target_family: str | None = None
    has_cuda: bool = True
    draft: str = ""
    target: str = ""

    @property
    def roles(self) -> tuple[str, ...]:
        """The models that will run."""
        return roles_of(self.mode, self.speculation)

    @property
    def speculation(self) -> SpeculationSettings:
        """What was set about speculation, with a drafter that can be used."""
        asked = self.settings.speculation
        return replace(asked, drafter=MODEL, adapter=None) if _drafter_refusal(self, chosen(asked)) else asked


def obstacle(here: Circumstances, key: str) -> str:
    """Why a setting changes nothing now; empty when it counts."""
    settings = here.settings
    if key in _EVENTGPT_ONLY and DRAFT not in here.roles:
        return "The event model does not run in this mode."
    if key in _TARGET_ONLY and TARGET not in here.roles:
        return "The video model does not run in this mode."
    if key == "image_layout" and here.target_family not in (None, "llava"):
        return "The target takes video, not images; only LLaVA-1.5 can be shown a grid."
    if key in (*_OF_ROUNDS, *_OF_PARALLEL_PREFILL):
        return _speculation_obstacle(here, key)
    switches = settings.switches
    is_paired = mode_of(here.mode).is_paired
    reasons = {
        "early_exit": (is_paired, "Early exit changes the answer, and speculation must not."),
        "exit_confidence": (is_paired or switches.early_exit is None, "No token leaves early."),
        "prune_by": (switches.visual_keep == 1, "Every visual token is kept."),
        "event_markers": (settings.input.prompt_style != "released", "The training prompt has no markers."),
        "canvas": (
            not any(input_of(settings.input, role) == "events" for role in here.roles),
            "No model reads events.",
        ),
        "frame_cache": (
            not any(input_of(settings.input, role) == "video" for role in here.roles),
            "No model reads a video.",
        ),
        **dict.fromkeys(
            ("top_p", "top_k", "seed"),
            (settings.temperature == 0, "Nothing is drawn at temperature 0."),
        ),
    }
    applies, reason = reasons.get(key, (False, ""))
    return reason if applies else ""


def _speculation_obstacle(here: Circumstances, key: str) -> str:
    asked = here.speculation
    if key == DRAFTER:
        return "" if mode_of(here.mode).is_paired else "Only speculative modes draft."
    if key in _OF_PARALLEL_PREFILL:
        return "" if mode_of(here.mode).is_parallel else "Only parallel prefill drafts while the target prefills."
    if not mode_of(here.mode).drafts:
        return "Only speculative modes draft."
    has_tree = bool(asked.tree) and asked.drafter == EAGLE and not mode_of(here.mode).is_parallel
    has_rounds = not mode_of(here.mode).is_parallel or asked.afterwards == "rounds"
    reasons = {
        "gamma": ((not has_rounds, _NO_ROUNDS), (has_tree, "The tree says how much is drafted.")),
        "length": ((not has_rounds, _NO_ROUNDS), (has_tree, "The tree says how much is drafted.")),
        "tree": ((asked.drafter != EAGLE, "Only an EAGLE head drafts trees."),),
    }
    return next((reason for applies, reason in reasons.get(key, ()) if applies), "")


_NO_ROUNDS = "Decoding goes on token by token after the prefill."


def _drafter_refusal(here: Circumstances, choice: Drafter) -> str:
    kind, adapter = choice
    asked = SpeculationSettings(drafter=kind) if kind != KV else None
    if mode_of(here.mode).maps_cache and kind != KV:
        return "The mode KV-adapted takes a trained map of caches."
    if not mode_of(here.mode).maps_cache and kind == KV:
        return "A map of caches changes the answer: choose the mode KV-adapted for it."
    if mode_of(here.mode).is_parallel and asked is not None and not asked.needs_draft_model:
        return "Parallel prefill drafts with the event model."
    return mismatch(adapter, here.draft, here.target)


def refusal(here: Circumstances, key: str, value: Any) -> str:
    """Why one of a setting's choices cannot be taken now; empty when it can."""
    if key == DRAFTER:
        return _drafter_refusal(here, value)
    if key == "cache" and value in ("hqq8", "hqq4") and mode_of(here.mode).drafts:
        return "An hqq cache cannot forget rejected tokens; speculative mode needs that."
    if key == "step" and value in ("compiled", "graphs"):
        return _step_refusal(here, value)
    if key == "pooling" and value == "none" and here.settings.event_frames != 1:
        return "Shows every token of one frame: set the draft's frames to 1 first."
    return ""


def _step_refusal(here: Circumstances, value: str) -> str:
    """Why a decode step cannot be compiled or captured; the order is the engine's."""
    switches = here.settings.switches
    if value == "graphs" and not here.has_cuda:
        return "CUDA graphs need a model on a CUDA device."
    if switches.early_exit is not None and not mode_of(here.mode).is_paired:
        return "Early exit decides token by token how far to go."
    if switches.cache not in ("auto", "static"):
        return f"It needs a cache that is written in place: choose the static KV cache instead of {switches.cache}."
    return ""


def in_force(here: Circumstances) -> GenerationSettings:
    """The settings that will run: what makes no sense now stands at its default."""
    found = here.settings
    for key in idle(here):
        found = with_value(found, key, default_of(key))
    return _with_map(here, found)


def _with_map(here: Circumstances, settings: GenerationSettings) -> GenerationSettings:
    """In the mode that needs a map of caches: the one that comes along, unless another was chosen."""
    if not mode_of(here.mode).maps_cache or chosen(settings.speculation)[0] == KV:
        return settings
    name = bundled_map()
    return settings if name is None else with_value(settings, DRAFTER, (KV, name))


def idle(here: Circumstances) -> dict[str, str]:
    """Settings that differ from their defaults and yet change nothing now, with the reason."""
    found = {}
    for control in controls():
        if control.key in MEASURING:
            continue
        value = value_of(here.settings, control.key)
        if value != default_of(control.key):
            reason = obstacle(here, control.key) or refusal(here, control.key, value)
            if reason:
                found[control.key] = reason
    return found
