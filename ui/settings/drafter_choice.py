"""Who can draft, as the settings offer it: a drafter and, where it was trained, the folder or bundled name of it.

One choice stands for two settings, because a trained drafter is nothing without its folder. It knows no widget.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import ADAPTER_KINDS, DRAFTERS, KINDS, KV, MODEL
from evprof.core.vocabulary.modes import mode_of
from evprof.core.vocabulary.speculation import SpeculationSettings

if TYPE_CHECKING:
    from evprof.loaders.adapters import AdapterInfo

DrafterChoice = tuple[str, str | None]
"""A kind, and the folder or bundled name of the adapter; None for what needs none."""

UNTRAINED: tuple[tuple[DrafterChoice, str], ...] = tuple(
    ((key, None), drafter.word) for key, drafter in KINDS.items() if not drafter.is_trained
)
"""What can draft without having been trained for it, and what the list calls it."""

_KEPT = 64


def chosen(settings: SpeculationSettings) -> DrafterChoice:
    """The choice that settings stand for. A map of caches is an adapter beside a drafter that needs none."""
    if settings.adapter and settings.drafter not in ADAPTER_KINDS:
        return KV, settings.adapter
    return settings.drafter, settings.adapter


def settings_of(choice: DrafterChoice) -> dict[str, str | None]:
    """The two settings of a choice."""
    kind, adapter = choice
    return {"drafter": kind if kind in DRAFTERS else MODEL, "adapter": adapter}


def bundled_choices() -> list[tuple[DrafterChoice, str]]:
    """The adapters that come along and their words, by name; none where one of them is damaged."""
    return [(choice_of(info, info.folder.name), words_of(info)) for info in _bundled()]


def choice_of(info: AdapterInfo, name: str) -> DrafterChoice:
    """What choosing an adapter by that name means."""
    return info.kind, name


def words_of(info: AdapterInfo) -> str:
    """`EAGLE · tiny-eagle`: kind and name."""
    return adapter_words(info.kind, info.name)


def adapter_words(kind: str, name: str) -> str:
    """The same of a kind that perhaps nobody knows."""
    return f"{KINDS[kind].word if kind in KINDS else kind} · {name}"


def choice_words(choice: DrafterChoice) -> str:
    """A choice in words, whatever became of its folder."""
    kind, adapter = choice
    info = adapter_of(adapter)
    known = adapter_words(kind, Path(adapter or "").name) if info is None else words_of(info)
    return dict(UNTRAINED).get(choice, known)


@lru_cache(_KEPT)
def _read(name: str, _changed_ns: int) -> AdapterInfo | None:
    from evprof.loaders.adapters import read_adapter

    try:
        return read_adapter(name)
    except UserError:
        return None


def adapter_of(name: str | None) -> AdapterInfo | None:
    """What an adapter's description says; None where there is none that can be read. Read again when it changed."""
    if not name:
        return None
    try:
        changed_ns = (Path(name) / "adapter.json").stat().st_mtime_ns
    except OSError:
        changed_ns = -1
    return _read(name, changed_ns)


def bundled_map() -> str | None:
    """The name of a bundled map of caches, if there is one."""
    return next((info.folder.name for info in _bundled() if info.kind == KV), None)


@lru_cache(1)
def _bundled() -> tuple[AdapterInfo, ...]:
    from evprof.loaders.adapters import bundled_adapters

    try:
        return tuple(bundled_adapters())
    except UserError:
        return ()


def refusal_of(choice: DrafterChoice, mode: str, draft: str, target: str) -> str:
    """Why a choice cannot be taken in a mode with two models, in a sentence; empty when it can or nobody knows."""
    kind, adapter = choice
    maps_cache = kind in KINDS and KINDS[kind].maps_cache
    if mode_of(mode).maps_cache and not maps_cache:
        return "The mode KV-adapted takes a trained map of caches."
    if maps_cache and not mode_of(mode).maps_cache:
        return "A map of caches changes the answer: choose the mode KV-adapted for it."
    if mode_of(mode).is_parallel and not (kind in KINDS and KINDS[kind].takes_draft):
        return "Parallel prefill drafts with the event model."
    info = adapter_of(adapter)
    for trained, asked in () if info is None else ((info.target, target), (info.draft, draft)):
        if trained and asked and Path(trained).name != Path(asked).name:
            return f"It was trained for {Path(trained).name}, not for {Path(asked).name}."
    return ""
