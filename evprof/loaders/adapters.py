"""Trained adapters as folders: the checked values of their `adapter.json`. The engine reads tensors.

A published head (`evprof.loaders.heads`) is an adapter, too, described by its config.json.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.plain import fits, hints_of
from evprof.core.texts import did_you_mean, guess_among
from evprof.core.vocabulary.drafters import ADAPTER_KINDS, DRAFTERS, KV, MODEL
from evprof.core.vocabulary.modes import KV_ADAPTED, SPECULATIVE, mode_of
from evprof.loaders.bundled import assets_folder
from evprof.loaders.heads import CONFIG, LAYOUT, LAYOUTS, HeadLayout, is_head_folder, read_head
from evprof.loaders.paths import opened_file

FORMAT = 1
DESCRIPTION, TENSORS, CARD = "adapter.json", "adapter.safetensors", "MODEL_CARD.md"
PUBLISHED_TENSORS = "model.safetensors"

_MOST_BYTES = 16 << 20
"""Of a description; loss curves of a million steps do not take as much."""

UNTRAINED = tuple(name for name in DRAFTERS if name not in ADAPTER_KINDS)
"""Drafters that need no adapter."""


@dataclass(frozen=True)
class AdapterInfo:
    """`kind` is one of ADAPTER_KINDS; `target` and `draft` the models it was trained for (draft None: none takes part).

    `config` holds the kind's own sizes, `training` its curves, `evaluation` what was measured on held-out samples.
    """

    folder: Path
    kind: str
    name: str
    target: str
    draft: str | None = None
    hidden_size: int = 0
    draft_hidden_size: int | None = None
    vocabulary: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    evaluation: dict[str, Any] | None = None

    @property
    def tensors_path(self) -> Path:
        return self.folder / (TENSORS if self.layout is None else PUBLISHED_TENSORS)

    @property
    def described_in(self) -> Path:
        path = self.folder / DESCRIPTION
        return path if path.is_file() or self.layout is None else self.folder / CONFIG

    @property
    def layout(self) -> HeadLayout | None:
        """The layout of a head that others can load, None for what only evprof reads."""
        return LAYOUTS.get(str(self.config.get(LAYOUT)))


def bundled_adapters() -> list[AdapterInfo]:
    root = _bundled_root()
    folders = sorted(path.parent for path in root.glob(f"*/{DESCRIPTION}")) if root.is_dir() else []
    return [read_adapter(str(folder)) for folder in folders]


def is_bundled(adapter: AdapterInfo) -> bool:
    return adapter.folder.resolve().parent == _bundled_root().resolve()


def read_adapter(name: str) -> AdapterInfo:
    """The adapter of a folder or a bundled name. Raises UserError for what is none, saying what is wrong with it."""
    folder = Path(name)
    if not folder.exists() and (bundled := _bundled_root() / name).is_dir() and folder.name == name:
        folder = bundled
    path = folder / DESCRIPTION
    if not path.is_file() and is_head_folder(folder):
        head = read_head(folder)
        name = folder.resolve().name
        sizes = (head.hidden_size, None, head.vocabulary)
        return AdapterInfo(folder, head.layout.kind, name, head.target, None, *sizes, head.config)
    if not path.is_file():
        bundled_names = [each.parent.name for each in _bundled_root().glob(f"*/{DESCRIPTION}")]
        guess = did_you_mean(name, bundled_names) or "; train one with evprof adapter train."
        raise UserError(f"'{name}' is no trained adapter: there is no {path}{guess}")
    if path.stat().st_size > _MOST_BYTES:
        raise UserError(f"{path} is too large for a description of an adapter.")
    try:
        with opened_file(path) as file:
            values = json.loads(file.read())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; copy the adapter again.") from None
    return _checked(folder, path, values)


def drafter_of(drafter: str | None, adapter: str | None) -> tuple[str, AdapterInfo | None]:
    """The drafter, one of DRAFTERS, and its adapter with an absolute folder. Either word may name an adapter.

    A map of caches drafts nothing: the drafter stays the model. Raises UserError (exit code 2) for an unknown name and
    for an adapter of another kind than the drafter.
    """
    named = drafter if drafter is not None and drafter not in DRAFTERS else None
    if named is not None and adapter is not None:
        raise UsageError("--drafter and --adapter name two adapters; leave one of them out.")
    name = named or adapter
    if name is None:
        return drafter or MODEL, None
    if named is not None and not Path(named).exists() and not (_bundled_root() / named).is_dir():
        known = (*UNTRAINED, *(info.folder.name for info in bundled_adapters()))
        raise UsageError(
            f"--drafter: '{named}' is neither a drafter nor the folder of a trained adapter{guess_among(named, known)}"
        )
    info = read_adapter(name)
    kind = MODEL if info.kind == KV else info.kind
    if drafter is not None and named is None and drafter != kind:
        raise UsageError(f"Adapter {info.name} is of kind {info.kind}, not {drafter}; leave --drafter out.")
    return kind, replace(info, folder=info.folder.resolve())


def check_mode(info: AdapterInfo, mode: str) -> None:
    """Raises UserError (exit code 2) where a paired mode has no use for an adapter: only `kv-adapted` maps caches."""
    if mode_of(mode).is_paired and (info.kind == KV) != (mode_of(mode).maps_cache):
        fitting = KV_ADAPTED if info.kind == KV else SPECULATIVE
        raise UsageError(
            f"Adapter {info.name} is of kind {info.kind}, of no use in mode {mode}; choose --mode {fitting}."
        )


def _bundled_root() -> Path:
    return assets_folder() / "adapters"


def _checked(folder: Path, path: Path, values: Any) -> AdapterInfo:
    if not isinstance(values, dict):
        raise UserError(f"{path} does not describe an adapter.")
    if (version := values.get("format")) != FORMAT:
        raise UserError(
            f"{path} is of format {str(version)[:40]}, and this evprof reads format {FORMAT}; train the adapter again."
        )
    kinds = {name: kind for name, kind in hints_of(AdapterInfo).items() if name != "folder"}
    wrong = [name for name, kind in kinds.items() if not fits(values.get(name), kind)]
    if wrong:
        raise UserError(f"{path} lacks or misspells {', '.join(wrong)}; train the adapter again.")
    if values["kind"] not in ADAPTER_KINDS:
        raise UserError(f"{path} is of the unknown kind '{values['kind'][:40]}'; known are {', '.join(ADAPTER_KINDS)}.")
    given: dict[str, Any] = {name: values.get(name) for name in kinds}
    if LAYOUT in values["config"]:
        # Others load it by config.json.
        head = read_head(folder)
        if head.layout.kind != values["kind"]:
            raise UserError(f"{folder / CONFIG} describes a head of {head.layout.word}, and {path} another.")
        given |= {"hidden_size": head.hidden_size, "vocabulary": head.vocabulary}
        given["config"] = {**values["config"], **head.config}
    return AdapterInfo(folder, **given)
