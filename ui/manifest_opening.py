"""Opens a list of samples in the window: the first of them go to the sample list, the rest is a suite's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.manifest import read_manifest

MOST_LISTED = 200


def listed_samples(path: str, post: Callable[[str], None]) -> list[Sample]:
    """The first samples of a manifest; its problems are posted as one sentence. Raises UserError without samples."""
    found = read_manifest(path, limit=MOST_LISTED)
    if not found.samples:
        raise UserError(
            f"{path}: no sample of the list can be used. {found.problems[0] if found.problems else ''}".strip()
        )
    if found.problems:
        more = (
            f" And {len(found.problems) - 1:,} more: evprof inspect tells them all." if len(found.problems) > 1 else ""
        )
        post(f"{Path(path).name}: {found.problems[-1]}{more}")
    return list(found.samples)
