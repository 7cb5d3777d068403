"""Opens a list of samples in the window: the first of them go to the sample list, the rest is a suite's."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.loaders.manifests.manifest import cut_sentence, read_manifest

MOST_LISTED = 200


def listed_samples(path: str) -> tuple[list[Sample], str]:
    """The first samples of a manifest, and its problems in one sentence. Raises UserError without samples."""
    found = read_manifest(path, limit=MOST_LISTED)
    problems = list(found.problems)
    if not found.samples:
        raise UserError(" ".join([f"{path}: no sample of the list can be used.", *problems[:1]]))
    if not problems:
        return list(found.samples), ""
    cut = cut_sentence(found.rows)
    first = cut if cut in problems else problems[0]
    more = f" {len(problems) - 1:,} more to know: evprof inspect tells all." if len(problems) > 1 else ""
    return list(found.samples), f"{Path(path).name}: {first}{more}"
