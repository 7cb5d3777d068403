"""Trained adapters as folders: what their `adapter.json` says, checked; their tensors are the engine's to read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.speculation import ADAPTER_KINDS

FORMAT = 1
DESCRIPTION, TENSORS, CARD = "adapter.json", "adapter.safetensors", "MODEL_CARD.md"

_MOST_BYTES = 16 << 20
"""Of a description; loss curves of a million steps do not take as much."""


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
        """The file of its weights."""
        return self.folder / TENSORS


def bundled_adapters() -> list[AdapterInfo]:
    """Those that come along, by name."""
    root = _bundled_root()
    folders = sorted(path.parent for path in root.glob(f"*/{DESCRIPTION}")) if root.is_dir() else []
    return [read_adapter(str(folder)) for folder in folders]


def read_adapter(name: str) -> AdapterInfo:
    """The adapter of a folder or a bundled name. Raises UserError for what is none, saying what is wrong with it."""
    folder = Path(name)
    if not folder.exists() and (bundled := _bundled_root() / name).is_dir() and folder.name == name:
        folder = bundled
    path = folder / DESCRIPTION
    if not path.is_file():
        raise UserError(f"'{name}' is no trained adapter: there is no {path}; train one with evprof adapter train.")
    if path.stat().st_size > _MOST_BYTES:
        raise UserError(f"{path} is too large for a description of an adapter.")
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read: {error}; copy the adapter again.") from None
    return _checked(folder, path, values)


def _bundled_root() -> Path:
    import assets

    return Path(assets.__file__).parent / "adapters"


def _checked(folder: Path, path: Path, values: Any) -> AdapterInfo:
    if not isinstance(values, dict):
        raise UserError(f"{path} does not describe an adapter.")
    found = values.get("format")
    if found != FORMAT:
        raise UserError(f"{path} is of format {found}, and this evprof reads format {FORMAT}; train the adapter again.")
    kinds: dict[str, tuple[type, ...]] = {
        "kind": (str,),
        "name": (str,),
        "target": (str,),
        "draft": (str, type(None)),
        "hidden_size": (int,),
        "draft_hidden_size": (int, type(None)),
        "vocabulary": (int,),
        "config": (dict,),
        "training": (dict,),
        "evaluation": (dict, type(None)),
    }
    wrong = [name for name, expected in kinds.items() if not isinstance(values.get(name), expected)]
    if wrong:
        raise UserError(f"{path} lacks or misspells {', '.join(wrong)}; train the adapter again.")
    if values["kind"] not in ADAPTER_KINDS:
        raise UserError(f"{path} is of the unknown kind '{values['kind']}'; known are {', '.join(ADAPTER_KINDS)}.")
    return AdapterInfo(folder, **{name: values[name] for name in kinds})
