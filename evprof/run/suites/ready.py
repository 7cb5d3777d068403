"""The ready-made suites, as the grids that a file would hold: the set-ups of the five mission documents."""

from __future__ import annotations

from typing import Any

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

_OF_THE_DOCUMENTS = (
    "shapes",
    "stages",
    "one-vs-eight",
    "token-scaling",
    "loading",
    "speculation",
    "drafters",
    "parallel-prefill",
    "optimizations",
)

DOCUMENTS = "documents"
"""The suite that measures what the five documents tell, and whose report is in their order."""

READY: dict[str, dict[str, Any]] = {
    **_SINGLE,
    DOCUMENTS: {
        "title": "The five documents, measured",
        "repeat": 3,
        "within_context": True,
        "parts": {name: _SINGLE[name] for name in _OF_THE_DOCUMENTS},
    },
}
"""Name -> grid. One row takes the bundled pair a tenth of a second to a second, so that each is done in minutes."""
