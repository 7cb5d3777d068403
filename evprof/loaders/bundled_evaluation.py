"""What was measured of the bundled pair, to be told beside every acceptance figure that comes from it."""

from __future__ import annotations

import json
from typing import Any

from evprof.loaders.bundled import assets_folder

EVALUATION = "evaluation.json"


def pair_evaluation(target: str, draft: str | None = None) -> dict[str, Any] | None:
    """The findings of `python packaging/make_pair.py evaluate`; None unless both are the bundled models themselves.

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
    kinds = "; ".join(
        f"{kind} {of['right']:.0%} ({of['chance']:.0%}, {of['other_input']:.0%})"
        for kind, of in found["accuracy"][target].items()
    )
    return [
        f"{target} leaves {left['entropy_bits']:.2f} bits a token open where it draws its answers and "
        f"{left['entropy_bits_greedy']:.2f} on its likeliest ones; a blind {left['ngram']}-gram has perplexity "
        f"{left['ngram_perplexity']:.1f} on the drawn ones. Word for word in its training: {left['in_training']:.1%} "
        f"of the drawn answers, {left['in_training_greedy']:.1%} of the likeliest.",
        f"Right by kind of question (by chance, with another scene's input): {kinds}. "
        f"{found['scenes']} held-out scenes, held-out wordings.",
    ]
