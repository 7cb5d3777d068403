"""All claims of the documents, read from `claims.toml`, and their verdicts."""

from __future__ import annotations

from typing import Any

from evprof.metrics.claims import models, speculation
from evprof.metrics.claims.evidence import LIST, CheckedClaim, Claim, Evidence, judge

QUANTITIES = {
    quantity.__name__: quantity
    for quantity in (
        models.bfloat16,
        models.eventgpt_context,
        models.feature_caching,
        models.fewer_tokens,
        models.memory_bound_prefill,
        models.seven_percent,
        models.smaller_cache,
        models.tokenizers,
        models.vision_per_frame,
        models.vision_share,
        models.warm_prefill,
        speculation.adapter_acceptance,
        speculation.adapter_speed,
        speculation.batched_speed,
        speculation.draft_speed,
        speculation.length_ratio_as_acceptance,
        speculation.naive_speed,
        speculation.parallel_prefill_speed,
        speculation.pruned_time,
        speculation.quantized_speed,
    )
}
"""The quantities of claims by name."""


def _claim(entry: dict[str, Any]) -> Claim:
    least, most = entry["claimed"]
    return Claim(**entry | {"quantity": QUANTITIES[entry["quantity"]], "claimed": (least, most)})


CLAIMS = tuple(map(_claim, LIST["claims"]))
"""All claims in the documents' order."""


def answer_claims(evidence: Evidence) -> list[CheckedClaim]:
    """Every claim with its finding."""
    return [CheckedClaim(claim, judge(claim, evidence)) for claim in CLAIMS]
