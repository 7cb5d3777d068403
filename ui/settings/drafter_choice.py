"""Who can draft, as the settings offer it: a drafter and, where it was trained, the folder or bundled name of it.

One choice stands for two settings, because a trained drafter is nothing without its folder. It knows no widget.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.vocabulary.drafters import ADAPTER_KINDS, EAGLE, HIDDEN, KV, LOOKUP, LORA, MODEL, NGRAM, SELF
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.loaders.adapters import AdapterInfo, bundled_adapters, read_adapter

Drafter = tuple[str, str | None]
"""One of DRAFTERS, or KV for a map of caches; and the adapter's folder or bundled name, None for what needs none."""

UNTRAINED: tuple[tuple[Drafter, str], ...] = (
    ((MODEL, None), "event model"),
    ((LOOKUP, None), "prompt lookup"),
    ((SELF, None), "target itself"),
)
"""What can draft without having been trained for it, and what the list calls it."""

KIND_WORDS = {EAGLE: "EAGLE", HIDDEN: "hidden", LORA: "LoRA", NGRAM: "n-gram", KV: "KV map"}
"""Kinds of adapters in a word."""

_KEPT = 64


def chosen(settings: SpeculationSettings) -> Drafter:
    """The choice that settings stand for. A map of caches is an adapter beside a drafter that needs none."""
    if settings.adapter and settings.drafter not in ADAPTER_KINDS:
        return KV, settings.adapter
    return settings.drafter, settings.adapter


def settings_of(choice: Drafter) -> dict[str, str | None]:
    """The two settings of a choice."""
    kind, adapter = choice
    return {"drafter": MODEL if kind == KV else kind, "adapter": adapter}


def bundled_choices() -> list[tuple[Drafter, str]]:
    """The adapters that come along and their words, by name; none where one of them is damaged."""
    return [(choice_of(info, info.folder.name), words_of(info)) for info in _bundled()]


def choice_of(info: AdapterInfo, name: str) -> Drafter:
    """What choosing an adapter by that name means."""
    return info.kind, name


def words_of(info: AdapterInfo) -> str:
    """`EAGLE · tiny-eagle`: kind and name."""
    return f"{KIND_WORDS[info.kind]} · {info.name}"


def choice_words(choice: Drafter) -> str:
    """A choice in words, whatever became of its folder."""
    for known, words in UNTRAINED:
        if known == choice:
            return words
    kind, adapter = choice
    info = adapter_of(adapter)
    return words_of(info) if info is not None else f"{KIND_WORDS.get(kind, kind)} · {Path(adapter or '').name}"


@lru_cache(_KEPT)
def _read(name: str, _changed_ns: int) -> AdapterInfo | None:
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
    try:
        return tuple(bundled_adapters())
    except UserError:
        return ()


def mismatch(name: str | None, draft: str, target: str) -> str:
    """Why an adapter cannot be used with two models, in a sentence; empty when it can or nobody knows."""
    info = adapter_of(name)
    if info is None:
        return ""
    for trained, asked in ((info.target, target), (info.draft, draft)):
        if trained and asked and Path(trained).name != Path(asked).name:
            return f"It was trained for {Path(trained).name}, not for {Path(asked).name}."
    return ""
