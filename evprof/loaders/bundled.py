"""Where the samples and models that come with the program lie."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.core.units import number_text, percent_text


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


def bundled_sample() -> Sample:
    found = bundled_samples()
    if not found:
        raise UserError("This installation has no bundled samples; name your own with --events and --video.")
    return found[0]


def _read(path: Path) -> Sample:
    described = json.loads(path.read_text(encoding="utf-8"))
    events, video = path.with_name("events.npy"), path.with_name("video.mp4")
    return Sample(
        events_path=str(events) if events.exists() else None,
        video_path=str(video) if video.exists() else None,
        prompt=described.get("prompt", Sample().prompt),
        name=described.get("name", path.parent.name),
    )


EVALUATION = "evaluation.json"

_RECITED = 0.5
"""Above this share of answers that stand word for word in the training a model is said to recite."""


def pair_evaluation(target: str, draft: str | None = None) -> dict[str, Any] | None:
    """The evaluation of the bundled pair (its `command` repeats it); None unless both are the bundled models.

    `accuracy` by model and kind of question, `openness` by model, the draft's `acceptance`.
    """
    known = {path.parent.name: path for path in (assets_folder() / "models").glob(f"*/{EVALUATION}")}
    if (path := known.get(target)) is None:
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found if draft in (None, *found["accuracy"]) else None


def pair_sentences(target: str, found: dict[str, Any]) -> list[str]:
    left = found["openness"][target]
    drawn, likeliest = (number_text(left[name], 2) for name in ("entropy_bits", "entropy_bits_greedy"))
    kinds = "; ".join(
        f"{kind} {percent_text(of['right'])} ({percent_text(of['chance'])}, {percent_text(of['other_input'])})"
        for kind, of in found["accuracy"][target].items()
    )
    recited = "Most of what it says is recited: acceptance measured on it promises nothing for other models."
    return [
        f"{target} leaves {drawn} bits a token open on answers it draws and {likeliest} on its likeliest ones; a blind "
        f"{left['ngram']}-gram of {left['ngram_answers']:,} answers it was taught has perplexity "
        f"{number_text(left['ngram_perplexity'], 3)} on the drawn ones, foretells "
        f"{percent_text(left['ngram_right_greedy'])} of the likeliest tokens. Word for word in its training: "
        f"{percent_text(left['in_training'], 1)} of the drawn answers, {percent_text(left['in_training_greedy'], 1)} "
        "of the likeliest.",
        f"Right by kind of question (by chance, with another scene's input): {kinds}. "
        f"Measured on {found['scenes']} held-out scenes, asked in held-out words.",
        *([recited] if left["in_training_greedy"] > _RECITED else []),
    ]


def site_page(name: str) -> Path | None:
    """A page of the built site, such as "index" or "reference/commands"; None where the site, or that page, is not."""
    path = assets_folder() / "site" / f"{name}.html"
    return path if path.is_file() else None


def page_source(name: str) -> Path | None:
    """The same page as Markdown, in a checkout; None elsewhere, and for pages that are written from the code."""
    path = assets_folder().parent / "docs" / f"{name}.md"
    return path if path.is_file() else None
