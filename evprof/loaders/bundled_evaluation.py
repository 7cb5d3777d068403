"""What was measured of the bundled pair, to be told beside every acceptance figure that comes from it."""

from __future__ import annotations

import json
from typing import Any

from evprof.core.units import number_text, percent_text
from evprof.loaders.bundled import assets_folder

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
    """How open, how new and how right the target's answers are."""
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
