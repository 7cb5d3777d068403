"""The models and how they run; the only place that imports torch and transformers, and not before it must.

This file is the catalogue: which families are known, which models come along, which shapes have random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engines.libraries.noise import mute_known_lines

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


CATALOGUE: tuple[CatalogueEntry, ...] = (
    CatalogueEntry("evprof-tiny-eventgpt", "eventgpt", "draft", "Bundled: a tiny EventGPT trained on driving scenes."),
    CatalogueEntry(
        "evprof-tiny-video-llava", "video_llava", "target", "Bundled: a tiny Video-LLaVA trained on driving scenes."
    ),
    CatalogueEntry("random:160m-eventgpt", "eventgpt", "draft", "Random weights, 160M language model.", True),
    CatalogueEntry("random:160m-video-llava", "video_llava", "target", "Random weights, 160M language model.", True),
    CatalogueEntry("random:160m-llava", "llava", "target", "Random weights, 160M language model.", True),
    CatalogueEntry(
        "random:160m-llava-next-video", "llava_next_video", "target", "Random weights, 160M language model.", True
    ),
    CatalogueEntry("random:7b-eventgpt", "eventgpt", "draft", "Random weights in EventGPT-7B's true shape.", True),
    CatalogueEntry("random:7b-llava", "llava", "target", "Random weights in LLaVA-1.5-7B's true shape.", True),
    CatalogueEntry(
        "random:7b-video-llava", "video_llava", "target", "Random weights in Video-LLaVA-7B's true shape.", True
    ),
    CatalogueEntry(
        "random:7b-llava-next-video",
        "llava_next_video",
        "target",
        "Random weights in LLaVA-NeXT-Video-7B's true shape.",
        True,
    ),
)


def bundled_folder(name: str) -> Path | None:
    """Where the bundled model of that name lies, or None when no such model comes along."""
    import assets

    if not any(entry.name == name and not entry.is_random for entry in CATALOGUE):
        return None
    folder = Path(assets.__file__).parent / "models" / name
    return folder if folder.is_dir() else None
