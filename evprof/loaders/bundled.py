"""Where the samples and models that come with the program lie."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample


def assets_folder() -> Path:
    """The folder of run-time files, beside the packages or inside the frozen program."""
    import assets

    return Path(assets.__file__).resolve().parent


def bundled_samples() -> list[Sample]:
    """All bundled samples in order of name; the first is the one that is used when none is named."""
    return list(_samples("samples"))


def held_out_scenes() -> list[Sample]:
    """Bundled scenes that neither the bundled models nor their adapters were trained on, in order of name."""
    return list(_samples("held-out"))


@cache
def _samples(folder: str) -> tuple[Sample, ...]:
    return tuple(_read(path) for path in sorted((assets_folder() / folder).glob("*/sample.json")))


def bundled_sample(name: str | None = None) -> Sample:
    """The bundled sample of that name, or the first. Raises UserError when it is not there."""
    found = bundled_samples()
    for sample in found:
        if name in (None, sample.name):
            return sample
    if not found:
        raise UserError("This installation has no bundled samples; name your own with --events and --video.")
    names = ", ".join(sample.name for sample in found)
    raise UserError(f"There is no bundled sample '{name}'; there are {names}.")


def _read(path: Path) -> Sample:
    described = json.loads(path.read_text(encoding="utf-8"))
    events, video = path.with_name("events.npy"), path.with_name("video.mp4")
    return Sample(
        events_path=str(events) if events.exists() else None,
        video_path=str(video) if video.exists() else None,
        prompt=described.get("prompt", Sample().prompt),
        name=described.get("name", path.parent.name),
    )
