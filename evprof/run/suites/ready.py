"""The ready-made suites, as the grids that a file would hold: the set-ups of the five mission documents."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from evprof.core.errors import USAGE, UserError
from evprof.core.sample import Sample
from evprof.core.texts import guess_among
from evprof.run.suites.cell import PNG, SuiteConfiguration, free_name

ADAPTERS = ("evprof-tiny-lora", "evprof-tiny-hidden", "evprof-tiny-eagle", "evprof-tiny-ngram")
"""Of the bundled pair."""

ANSWER_LENGTHS = (5, 20, 50, 100)
"""Tokens of the answers that document 002 expects totals for."""

_SWITCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "half of the visual tokens": {"visual_keep": 0.5},
    "int8": {"quantization": "int8"},
    "dynamic cache": {"cache": "dynamic"},
    "8-bit cache": {"cache": "fp8"},
    "early exit": {"early_exit": 5},
}

_SINGLE: dict[str, dict[str, Any]] = {
    "shapes": {
        "title": "Five event frames against one video frame, in both 16-bit dtypes",
        "repeat": 5,
        "settings": {"mode": "side-by-side", "event_frames": 5, "frames": 1, "max_new_tokens": 64},
        "axes": {"dtype": ["bfloat16", "float16"]},
    },
    "stages": {
        "title": "Five stages of both models, side by side",
        "repeat": 10,
        "settings": {"mode": "side-by-side", "max_new_tokens": 64},
    },
    "one-vs-eight": {
        "title": "One event frame, unpooled, against eight video frames; five decode steps",
        "repeat": 10,
        # Decode covers tokens 2…n, so five steps are six tokens.
        "settings": {
            "mode": "side-by-side",
            "event_frames": 1,
            "pooling": "none",
            "frames": 8,
            "max_new_tokens": 6,
            "ignore_eos": True,
        },
    },
    "token-scaling": {
        "title": "What more frames cost: prompt, time and memory by number of frames",
        "repeat": 5,
        "within_context": True,
        "settings": {"max_new_tokens": 16, "ignore_eos": True},
        "cells": [
            *({"mode": "draft", "event_frames": count} for count in (1, 2, 5, 8, 16, 32)),
            *({"mode": "target", "frames": count} for count in (1, 2, 4, 8, 16, 32, 64)),
        ],
    },
    "loading": {
        "title": "Getting pictures to the models: event files, event frames and video, either way round",
        "repeat": 3,
        "settings": {"max_new_tokens": 6, "ignore_eos": True},
        "cells": [
            {**source, **caches, "mode": mode, "label": f"{mode} · {words}{cached}"}
            for mode in ("draft", "target")
            for words, source in (
                ("event file", {f"{mode}_input": "events"}),
                ("PNG event frames", {f"{mode}_input": "events", "event_source": "png"}),
                ("video", {f"{mode}_input": "video"}),
            )
            for cached, caches in (("", {}), (" · vision cache", {"vision_cache": "memory"}))
        ],
    },
    "speculation": {
        "title": "The draft alone, the target alone, and both in rounds of 1 to 8 drafted tokens",
        "repeat": 5,
        "settings": {"max_new_tokens": 64},
        "cells": [
            {"mode": "draft"},
            {"mode": "target"},
            *({"mode": "speculative", "gamma": gamma} for gamma in (1, 2, 3, 5, 8)),
        ],
    },
    "drafters": {
        "title": "The target alone, and with everybody who can draft for it, five tokens a round",
        "repeat": 5,
        "settings": {"max_new_tokens": 64, "gamma": 5},
        "cells": [
            {"mode": "target"},
            *({"mode": "speculative", "drafter": drafter} for drafter in ("model", "lookup")),
            *({"mode": "speculative", "adapter": adapter} for adapter in ADAPTERS),
        ],
    },
    "parallel-prefill": {
        "title": "Drafts inside the target's prefill, over answers of 5 to 100 tokens",
        "repeat": 5,
        "settings": {"max_new_tokens": 50, "ignore_eos": True, "frames": 8, "event_frames": 1},
        "cells": [
            *(
                {**how, "max_new_tokens": count, "label": f"{words} · {count} tokens"}
                for words, how in (
                    ("target", {"mode": "target"}),
                    ("hidden drafts", {"mode": "parallel-prefill"}),
                    (f"hidden drafts of {ADAPTERS[0]}", {"mode": "parallel-prefill", "adapter": ADAPTERS[0]}),
                )
                for count in ANSWER_LENGTHS
            ),
            *(
                {"mode": "parallel-prefill", **how, "label": f"hidden drafts · {words}"}
                for words, how in (
                    ("from the prefill on", {"begins": "prefill"}),
                    ("verified in the last chunk", {"verify": "last-chunk"}),
                    ("then rounds", {"afterwards": "rounds"}),
                )
            ),
        ],
    },
    "optimizations": {
        "title": "One optimization at a time, of either model",
        "repeat": 5,
        "settings": {"max_new_tokens": 32, "ignore_eos": True},
        "cells": [
            {**switch, "mode": mode, "label": f"{mode} · {words}"}
            for mode in ("draft", "target")
            for words, switch in _SWITCHES.items()
            if mode == "target" or "early_exit" not in switch
        ],
    },
}

DOCUMENTS = "documents"
"""The suite that measures what the five documents tell, and whose report is in their order."""

READY: dict[str, dict[str, Any]] = {
    **_SINGLE,
    DOCUMENTS: {
        "title": "The five documents, measured",
        "repeat": 3,
        "within_context": True,
        "parts": _SINGLE,
    },
}
"""Name -> grid. One row takes the bundled pair a tenth of a second to a second, so that each is done in minutes."""


_EVENT_FRAMES, _VIDEO_FRAMES = 5, 8
"""How many pictures EventGPT and video models are shown by default."""


def chosen(samples: Iterable[Sample], names: Sequence[str] = (), limit: int | None = None) -> list[Sample]:
    """The samples of these names (empty: all), `limit` at most. Raises UserError (exit code 2) for an unknown name."""
    listed = list(samples)
    known = [sample.name for sample in listed]
    for name in names:
        if name not in known:
            guess = guess_among(name, known, most=1)
            raise UserError(f"samples: there is no sample '{name}' in this data{guess}", exit_code=USAGE)
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
    """How many frames the models of a cell that read events are shown."""
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
