"""How many examples Hypothesis tries where one example is expensive."""

from __future__ import annotations

from hypothesis import settings


def examples(share: float) -> int:
    """A share of the examples of the profile: 25 in `make test`, 200 in `make test-all`."""
    return max(1, round(share * settings().max_examples))
