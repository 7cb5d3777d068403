"""Files on how alike features or hidden states are, through adapters: shares above thresholds, and what was modelled.

Read in their scripts: `accept_80` is the share of positions with a cosine above 0.80, of which no target has accepted
any token; every time in these files is worked out from five constants (vision and prefill of EventGPT 130 ms and of the
target 310 ms, 25 ms per token of either, 1.5 ms for the adapter), none was measured there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evprof.loaders.legacy.checks import finite, mapping
from evprof.loaders.legacy.reading import Preview, Published, flattened
from evprof.loaders.legacy.summary import StepList, SummaryReader, difference, known, ratio, series_of

_PREFILL_MS, _TOKEN_MS, _ADAPTER_MS, _OWN_PREFILL_MS, _GAMMA = 310.0, 25.0, 1.5, 130.0, 5
"""The constants of the scripts: the target's prefill, a token of either model, the adapter, EventGPT's prefill, and how
many tokens are drafted at once."""

_COSINE = (
    "“accept” and “acceptance” are shares of features or positions more alike than a threshold (cosine); no model "
    "accepted a token"
)
_MODELLED = (
    "Every time and speedup is worked out from constants of the script (prefill 310 ms, EventGPT's 130 ms, 25 ms per "
    "token, 1.5 ms for the adapter); none was measured"
)
_SETTINGS = ("batch_size", "max_seq_len", "hidden_dim", "feature_dim", "gamma_prefill", "gamma_decode")


class FeatureSimilarity(SummaryReader):
    """Features of both models before and after an adapter."""

    name = "feature similarity"
    looks_for = "before_adapter or before_alignment with mean_cosine_similarity"
    _steps = StepList(("sample_results",), "sample", "id")

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its two halves."""
        return any("mean_cosine_similarity" in mapping(preview.head.get(f"before_{kind}")) for kind in _KINDS)

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        kind = next(kind for kind in _KINDS if f"before_{kind}" in head)
        before, after = mapping(head.get(f"before_{kind}")), mapping(head.get(f"after_{kind}"))
        mean, level = "mean_cosine_similarity", "acceptance_at_0.8"
        gain = difference(after.get(mean), before.get(mean))
        share = ratio(gain, before.get(mean))
        computed = {
            "improvement.cosine_similarity_gain": gain,
            "improvement.cosine_sim_gain": gain,
            "improvement.relative_improvement": None if share is None else 100 * share,
            "improvement.acceptance_gain_0.8": difference(after.get(level), before.get(level)),
            "timing.samples_per_second": ratio(
                head.get("total_samples"), mapping(head.get("timing")).get("total_adapter_time")
            ),
        }
        sentences = [_COSINE, _whole_vectors(head)]
        listed, samples = preview.counts.get(("sample_results",), 0), finite(head.get("total_samples"))
        if preview.objects(("sample_results",)) and samples and samples > listed:
            sentences.append(
                f"The statistics are of {samples:,.0f} samples and the file lists {listed:,} of them, so its means "
                "cannot be worked out again"
            )
        parts = ("total_samples", "test_samples", f"before_{kind}", f"after_{kind}", "percentiles_after")
        told = flattened({key: head[key] for key in (*parts, "improvement", "timing") if key in head})
        return Published(told=told, computed=known(computed)), sentences


_KINDS = ("adapter", "alignment")


def _whole_vectors(head: dict[str, Any]) -> str:
    size = finite(head.get("feature_dim")) or finite(mapping(head.get("config")).get("event_dim"))
    told = "" if size is None else f" of {size:,.0f} numbers"
    return f"A sample is one vector{told} for a whole picture; no language model took part"


class StateSimilarity(SummaryReader):
    """Hidden states of an adapter against the target's, over all positions."""

    name = "hidden-state acceptance"
    looks_for = "cos_sim_mean with total_valid_positions"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its keys."""
        return "cos_sim_mean" in preview.head and "total_valid_positions" in preview.head

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        told = flattened({key: value for key, value in head.items() if key not in _SETTINGS})
        series = series_of("position", {key: value for key, value in head.items() if key.startswith("position_")})
        published = Published(told=told, computed=known(_states(head)), series=series)
        return published, (_COSINE, _MODELLED)


def _states(head: dict[str, Any]) -> dict[str, float | None]:
    """What follows from the other numbers of the file and the script's constants."""
    found: dict[str, float | None] = {
        "sd_gamma_prefill": finite(head.get("num_hidden_tokens_mean")),
        "sd_accept_rate_prefill_gamma": ratio(head.get("consecutive_mean_90"), head.get("num_hidden_tokens_mean")),
        "sd_accept_rate_decode_gamma5": ratio(head.get("sd_consecutive_gamma5"), _GAMMA),
        "token_sd_decode_accept_rate": ratio(
            head.get("token_sd_decode_consecutive_mean"), head.get("token_sd_gamma_decode")
        ),
        "token_sd_prefill_accept_rate": ratio(
            head.get("token_sd_prefill_consecutive_mean"), head.get("token_sd_gamma_prefill")
        ),
        "prefill_overlap_window_ms": min(_PREFILL_MS, _OWN_PREFILL_MS + _ADAPTER_MS),
        "prefill_free_draft_tokens": (_PREFILL_MS - _OWN_PREFILL_MS) / _TOKEN_MS,
        "decode_overhead_ratio": _ADAPTER_MS / _TOKEN_MS,
        "time_ratio_prefill": ratio(head.get("sd_parallel_prefill_ms"), head.get("sd_total_ms")),
        "time_ratio_decode": ratio(head.get("sd_decode_ms"), head.get("sd_total_ms")),
        "sd_parallel_prefill_ms": max(_PREFILL_MS, _OWN_PREFILL_MS + _ADAPTER_MS),
        "baseline_vl_prefill_ms": _PREFILL_MS,
    }
    positions = finite(head.get("total_valid_positions"))
    for level in (80, 85, 90, 95):
        share = finite(head.get(f"accept_{level}"))
        found[f"cosim_{level}_count"] = None if share is None or positions is None else float(round(share * positions))
    consecutive = finite(head.get("consecutive_mean_90"))
    if consecutive is not None:
        effective = min(consecutive, (_PREFILL_MS - _OWN_PREFILL_MS) / _TOKEN_MS)
        found["prefill_effective_tokens"] = effective
        found["speedup_prefill"] = 1 + effective * _TOKEN_MS / _PREFILL_MS
    return found | _modelled_ends(head)


def _modelled_ends(head: dict[str, Any]) -> dict[str, float | None]:
    """End to end by the script's model: a round of five drafted tokens costs six steps and an adapter's pass."""
    tokens = finite(head.get("e2e_num_output_tokens"))
    if tokens is None or tokens <= 0:
        return {}
    baseline = _PREFILL_MS + tokens * _TOKEN_MS
    found: dict[str, float | None] = {"baseline_vl_decode_ms": tokens * _TOKEN_MS, "baseline_total_ms": baseline}
    names = (
        ("sd_consecutive_gamma5", "e2e_baseline_time_ms", "e2e_sd_time_ms", "speedup_e2e"),
        ("token_sd_decode_consecutive_mean", "token_sd_e2e_baseline_ms", "token_sd_e2e_sd_ms", "token_sd_e2e_speedup"),
    )
    for accepted_key, baseline_key, time_key, speedup_key in names:
        accepted = finite(head.get(accepted_key))
        if accepted is None or accepted < 0:
            continue
        rounds = tokens / (accepted + 1)
        decode = rounds * (_TOKEN_MS * (_GAMMA + 1) + _ADAPTER_MS) if accepted > 0 else tokens * _TOKEN_MS
        found |= {
            baseline_key: baseline,
            time_key: _PREFILL_MS + decode,
            speedup_key: baseline / (_PREFILL_MS + decode),
        }
        if accepted_key.startswith("sd_"):
            found |= {"sd_decode_ms": decode, "sd_total_ms": _PREFILL_MS + decode}
            found |= {"sd_iterations": rounds if accepted > 0 else tokens}
            found["speedup_decode_gamma5"] = (accepted + 1) / (1 + _ADAPTER_MS / _TOKEN_MS)
    return found


class PositionRows(SummaryReader):
    """The same shares, one row per position of the answer."""

    name = "position statistics"
    looks_for = "a list of rows with position, num_samples and accept_80"
    _steps = StepList((), "position", "position")

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By the keys of the rows."""
        return {"position", "num_samples", "accept_80"} <= set(preview.first_row(()))

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        return Published(told={}), (_COSINE,)


class TwoPhases(SummaryReader):
    """Tokens that an adapter guesses, and the speedup that follows by the script's model."""

    name = "two-phase estimate"
    looks_for = "phase2_shifted_top1"

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its key."""
        return "phase2_shifted_top1" in preview.head

    def _summary(self, preview: Preview) -> tuple[Published, Sequence[str]]:
        head = preview.head
        told = flattened({key: value for key, value in head.items() if key not in _SETTINGS})
        skipped = frozenset(name for name in told if name.startswith("phase1_") and head.get("no_prefill") is True)
        tokens, free = finite(head.get("num_output_tokens")), finite(head.get("phase1_free_tokens"))
        accepted = finite(head.get("phase2_decode_consecutive"))
        computed: dict[str, float | None] = {}
        if tokens and free is not None and accepted is not None and accepted >= 0:
            cost = _TOKEN_MS + _ADAPTER_MS if accepted > 0 else _TOKEN_MS
            total = _PREFILL_MS + max(0.0, tokens - free) / (accepted + 1) * cost
            baseline = _PREFILL_MS + tokens * _TOKEN_MS
            computed = {
                "phase1_time_saved_ms": free * _TOKEN_MS,
                "baseline_time_ms": baseline,
                "sd_time_ms": total,
                "e2e_speedup": baseline / total,
            }
        published = Published(told=told, computed=known(computed), over_nothing=skipped)
        sentence = (
            "A round is taken to cost one step of the target and an adapter's pass, so EventGPT's own drafting is left "
            "out of the speedup"
        )
        return published, (_MODELLED, sentence)
