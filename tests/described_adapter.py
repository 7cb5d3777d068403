"""An adapter of which there is only the description."""

from __future__ import annotations

import json
from pathlib import Path


def describe_adapter(folder: Path, kind: str, *, target: str = "t", draft: str | None = None) -> str:
    """Makes the folder, which has no tensors."""
    folder.mkdir()
    values = {"format": 1, "kind": kind, "name": folder.name, "target": target, "draft": draft, "hidden_size": 128}
    values |= {"draft_hidden_size": None, "vocabulary": 768, "config": {}, "training": {}, "evaluation": None}
    (folder / "adapter.json").write_text(json.dumps(values), encoding="utf-8")
    return str(folder)
