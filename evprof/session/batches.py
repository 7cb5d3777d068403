"""Batches told in a session, as its facts hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evprof.core.batches import BATCHES, BatchRow


def read_batches(facts: Mapping[str, Any]) -> list[BatchRow]:
    """The rows of a session's facts, in order; what is no such row is none."""
    listed = facts.get(BATCHES)
    rows = listed if isinstance(listed, list) else []
    return [row for values in rows if (row := BatchRow.if_fitting(values)) is not None]
