"""What is known of the bundled pair is told of it alone."""

from __future__ import annotations

import pytest

from evprof.core.units import number_text, percent_text
from evprof.loaders.bundled import assets_folder, pair_evaluation, pair_sentences
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET


def test_the_bundled_pair_is_known_with_and_without_its_draft() -> None:
    found = pair_evaluation(BUNDLED_TARGET, BUNDLED_DRAFT)
    assert found == pair_evaluation(BUNDLED_TARGET)
    left = found["openness"][BUNDLED_TARGET]
    assert left["entropy_bits"] >= 0.0
    assert 0.0 <= left["in_training"] <= 1.0
    open_part, kinds, *_ = pair_sentences(BUNDLED_TARGET, found)
    assert f"{number_text(left['entropy_bits'], 2)} bits a token" in open_part
    for kind, of in found["accuracy"][BUNDLED_TARGET].items():
        assert (
            f"{kind} {percent_text(of['right'])} ({percent_text(of['chance'])}, {percent_text(of['other_input'])})"
            in kinds
        )


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("random:160m-video-llava", None),
        (BUNDLED_TARGET, "another"),
        (f"{BUNDLED_TARGET}:layers=5", None),
        (str(assets_folder() / "models" / BUNDLED_TARGET), None),
        ("", None),
        (BUNDLED_DRAFT, None),
        (f"../models/{BUNDLED_TARGET}", None),
    ],
)
def test_nothing_is_claimed_of_others(target: str, draft: str | None) -> None:
    assert pair_evaluation(target, draft) is None
