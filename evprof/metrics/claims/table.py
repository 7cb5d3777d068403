"""All claims of the documents, read from `claims.toml`, and their verdicts."""

from __future__ import annotations

from typing import Any

from evprof.metrics.claims import models, speculation
from evprof.metrics.claims.evidence import LIST, Claim, Evidence, Finding, judge

_QUANTITIES = {**vars(models), **vars(speculation), "nothing": lambda _: ()}


def _claim(entry: dict[str, Any]) -> Claim:
    least, most = entry["claimed"]
    return Claim(**entry | {"quantity": _QUANTITIES[entry["quantity"]], "claimed": (least, most)})


CLAIMS = tuple(map(_claim, LIST["claims"]))
"""All claims in the documents' order."""


def answer_claims(evidence: Evidence) -> list[Finding]:
    """The finding of every claim."""
    return [judge(claim, evidence) for claim in CLAIMS]
