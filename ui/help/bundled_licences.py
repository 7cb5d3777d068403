"""The licences of what a frozen program holds, as they lie beside it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from evprof.core.plain import Plain, UnfitError

FOLDER = "licences"
_MOST_TEXT_BYTES = 2_000_000


@dataclass(frozen=True)
class Part(Plain):
    """One part: its name, version, licence (SPDX), where its source is to be had, and the files that hold its texts."""

    name: str
    version: str
    licence: str
    texts: list[str]
    kind: str = ""
    source: str | None = None


def licences_folder() -> Path | None:
    """Beside the frozen program; None for an installation by pip, whose packages are not ours to hand on."""
    if not getattr(sys, "frozen", False):
        return None
    folder = Path(sys.executable).resolve().parent / FOLDER
    return folder if folder.is_dir() else None


def parts_in(folder: Path) -> list[Part]:
    """Every part by name; none where the list cannot be read."""
    try:
        document = json.loads((folder / "licences.json").read_text(encoding="utf-8"))
        return [Part.from_json(entry) for entry in document["parts"]]
    except (OSError, ValueError, KeyError, TypeError, UnfitError):
        return []


def text_of(folder: Path, part: Part) -> str:
    """The texts of a part's licence, one after the other; a sentence for one that cannot be read."""
    texts = []
    for name in part.texts:
        try:
            with (folder / name).open(encoding="utf-8", errors="replace") as file:
                texts.append(file.read(_MOST_TEXT_BYTES))
        except OSError as error:
            texts.append(f"{name} cannot be read ({error.strerror}).")
    return "\n\n".join(texts)
