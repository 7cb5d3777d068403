"""The ready-made suites, which `ready.toml` describes, and the samples that suites measure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.errors import UsageError, UserError
from evprof.core.sample import Sample
from evprof.core.texts import guess_among
from evprof.run.suites.cell import PNG, SuiteConfiguration, free_name

_SINGLE: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("ready.toml").read_text(encoding="utf-8"))

DOCUMENTS = "documents"
"""The suite that measures what the five documents tell, and whose report is in their order."""

READY: dict[str, dict[str, Any]] = {
    **_SINGLE,
    DOCUMENTS: {"title": "The five documents, measured", "repeat": 3, "within_context": True, "parts": _SINGLE},
}
"""Name -> grid."""


_EVENT_FRAMES, _VIDEO_FRAMES = 5, 8
"""How many pictures EventGPT and video models are shown by default."""


def chosen(samples: Iterable[Sample], names: Sequence[str] = (), limit: int | None = None) -> list[Sample]:
    """The samples of these names (empty: all), `limit` at most. Raises UserError (exit code 2) for an unknown name."""
    listed = list(samples)
    known = [sample.name for sample in listed]
    for name in names:
        if name not in known:
            guess = guess_among(name, known, most=1)
            raise UsageError(f"samples: there is no sample '{name}' in this data{guess}")
    found = [sample for sample in listed if not names or sample.name in names]
    return found[:limit]


def told_apart(samples: Iterable[Sample]) -> tuple[list[Sample], list[str]]:
    """Samples with a name each of their own, for that is what rows are known by; and what changed, in sentences."""
    taken: set[str] = set()
    found: list[Sample] = []
    problems: list[str] = []
    for sample in samples:
        name = sample.name or Path(sample.events_path or sample.video_path or "sample").stem
        free = free_name(name, taken)
        if free != name:
            problems.append(f"Two samples are called '{name}'; the later one is told as '{free}' here.")
        taken.add(free)
        found.append(replace(sample, name=free))
    return found, problems


class DrawnFrames:
    """Event frames as PNG files, drawn once for each sample and number of frames, below a folder of the suite's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sample_for(self, cell: SuiteConfiguration, sample: Sample) -> Sample:
        """The sample with its frames' folder in place of its recording where the cell asks for them."""
        if cell.event_source != PNG or sample.events_path is None or Path(sample.events_path).is_dir():
            return sample
        return replace(sample, events_path=str(self._place(cell, sample)), rectify_path=None)

    def draw(self, cells: Sequence[SuiteConfiguration], samples: Sequence[Sample]) -> list[str]:
        """Draws what is not there yet; returns what could not be drawn, in sentences."""
        from evprof.loaders.clips import save_event_frames

        problems: dict[str, None] = {}
        for cell in cells:
            for sample in samples:
                wanted = self.sample_for(cell, sample)
                if wanted is sample or wanted.events_path is None or sample.events_path is None:
                    continue
                if Path(wanted.events_path).is_dir():
                    continue
                try:
                    save_event_frames(sample, _count(cell), wanted.events_path)
                except UserError as error:
                    problems[f"No event frames could be drawn of '{sample.name}': {error.sentence}"] = None
        return list(problems)

    def _place(self, cell: SuiteConfiguration, sample: Sample) -> Path:
        slug = re.sub(r"[^\w.-]+", "-", sample.name).strip("-.")[:80] or "sample"
        return self._folder / f"{_count(cell)}-frames" / slug


def _count(cell: SuiteConfiguration) -> int:
    settings = cell.settings
    if "draft" in cell.roles and settings.input.draft_input in ("auto", "events"):
        return settings.event_frames or _EVENT_FRAMES
    return settings.frames or _VIDEO_FRAMES


_FRAMES = 8
"""As many as models are shown; how many exactly matters little to what a damaged file does."""


class VideoTrials:
    """Tries videos, each once. `argv` starts a helper (`evprof _video`)."""

    def __init__(self, argv: Sequence[str]) -> None:
        from evprof.loaders.videos.apart import Helpers

        self._helpers = Helpers(argv)
        self._tried: set[str] = set()

    def try_video(self, sample: Sample) -> None:
        """Decodes the sample's video if it is a file that was not tried yet; what is wrong the engine will say."""
        from evprof.loaders.clips import clip_frames
        from evprof.loaders.videos.apart import ApartVideo

        path = sample.video_path
        if path is None or path in self._tried or not Path(path).is_file():
            return
        self._tried.add(path)
        with suppress(UserError), ApartVideo(path, self._helpers) as video:
            clip_frames(video, sample, _FRAMES)

    def close(self) -> None:
        self._helpers.end()
