"""The models and how they run; the only place that imports torch and transformers, and not before it must.

This file is the catalogue: which families are known, which models come along, which shapes have random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engines.libraries import mute_known_lines
from evprof.core.vocabulary.families import FAMILIES

# Here, because every file of this package may be the first in a process to import transformers.
mute_known_lines()


@dataclass(frozen=True)
class CatalogueEntry:
    """A model that needs no path: `name` is what one types, `family` one of FAMILIES, `role` what it is offered for."""

    name: str
    family: str
    role: str
    sentence: str
    is_random: bool = False


def _entries(prefix: str, sentence: str, *, is_random: bool = True) -> tuple[CatalogueEntry, ...]:
    return tuple(
        CatalogueEntry(f"{prefix}-{family.word}", family.key, family.role, sentence.format(family.title), is_random)
        for family in FAMILIES.values()
        if is_random or family.is_bundled
    )


CATALOGUE: tuple[CatalogueEntry, ...] = (
    *_entries("evprof-tiny", "Bundled: a tiny {} trained on driving scenes.", is_random=False),
    *_entries("random:160m", "Random weights, 160M language model."),
    *(
        CatalogueEntry(
            f"random:{family.size.lower()}-{family.word}",
            family.key,
            family.role,
            f"Random weights in {family.title}-{family.size}'s true shape.",
            is_random=True,
        )
        for family in FAMILIES.values()
    ),
)


def bundled_folder(name: str) -> Path | None:
    """Where the bundled model of that name lies, or None when no such model comes along."""
    import assets

    if not any(entry.name == name and not entry.is_random for entry in CATALOGUE):
        return None
    folder = Path(assets.__file__).parent / "models" / name
    return folder if folder.is_dir() else None
