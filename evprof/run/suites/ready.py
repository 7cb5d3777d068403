"""The ready-made suites, as the grids that a file would hold: the set-ups of the five mission documents."""

from __future__ import annotations

from typing import Any

READY: dict[str, dict[str, Any]] = {
    "stages": {
        "title": "Five stages of both models, side by side",
        "repeat": 10,
        "settings": {"mode": "side-by-side", "max_new_tokens": 64},
    },
    "shapes": {
        "title": "Five event frames against one video frame, in both 16-bit dtypes",
        "repeat": 5,
        "settings": {"mode": "side-by-side", "event_frames": 5, "frames": 1, "max_new_tokens": 64},
        "axes": {"dtype": ["bfloat16", "float16"]},
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
            for cached, caches in (
                ("", {}),
                (" · vision cache", {"vision_cache": "memory"}),
                # Event files hold events and not frames: what is decoded is a video's.
                *([(" · frame cache", {"frame_cache": "disk"})] if words == "video" else []),
            )
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
}
"""Name -> grid. One row takes the bundled pair a tenth of a second to a second, so that each is done in minutes."""
