"""Small result files of the families that came later: answers side by side, drafts.

Values are made up; shapes and flaws are not.
"""

from __future__ import annotations

from typing import Any


def four_stages(count: int = 4) -> dict[str, Any]:
    """Both models in lists of their own; the target's ids begin with its prompt, which the file's matches count."""
    prompt = [1, 3148, *([32000] * 576), 13, 22933, 9047, 13566, 29901]
    answer = [450, 6, 2]
    draft = [
        {"sample": index, **_four(0.85), "output": "a road", "tokens": 3, "token_ids": [512, 6, 2]}
        for index in range(count)
    ]
    target: list[dict[str, Any]] = [
        {"model": "videollava", "sample": index, **_four(1.7), "tokens": len(prompt) + 3, "token_ids": prompt + answer}
        for index in range(count)
    ]
    pairs = [
        {
            "sample": index,
            "matched_tokens": 0,
            "compared_tokens": 3,
            "egpt_time": draft[index]["total_time"],
            "vllava_time": target[index]["total_time"],
            "acceptance_rate": 0.0,
        }
        for index in range(count)
    ]
    cost = draft[0]["total_time"] / target[0]["total_time"]
    matching = {
        "matched_samples": count,
        "total_compared_tokens": 3 * count,
        "total_matched_tokens": 0,
        "overall_acceptance_rate": 0.0,
        "c_ratio": cost,
        "gamma": 4,
        "theoretical_speedup": 1 / (4 * cost + 1),
    }
    return {
        "config": {"max_new_tokens": 100, "gamma": 4},
        "eventgpt_summary": {"samples": count, "stage4_avg": 0.85, "tokens_avg": 3},
        "eventgpt_results": draft,
        "videollava_summary": {"samples": count, "stage4_avg": 1.7, "tokens_avg": len(prompt) + 3},
        "videollava_results": target,
        "speculative_decoding": matching | {"per_sample": pairs},
    }


def _four(last: float) -> dict[str, float]:
    times = (0.008, 0.017, 0.03, last)
    return {f"stage{place}_time": time for place, time in enumerate(times, start=1)} | {"total_time": sum(times)}


def matched_answers(count: int = 3) -> dict[str, Any]:
    """Two models' answers as ids with whole times, and the share of ids equal at their places."""
    samples = [
        {
            "id": f"id-{index}",
            "eventgpt_output": "a road",
            "eventgpt_tokens": [5, 6, 2],
            "eventgpt_time": 1.0,
            "videollava_output": "the road",
            "videollava_tokens": [4, 6, 7, 2],
            "videollava_time": 1.25,
            "accepted_tokens": 1,
            "total_compared": 3,
            "acceptance_rate": 1 / 3,
            "c_ratio": 0.8,
        }
        for index in range(count)
    ]
    rate = 1 / 3
    results = {
        "total_samples": count,
        "overall_token_acceptance_rate": rate,
        "total_accepted_tokens": count,
        "avg_eventgpt_time": 1.0,
        "avg_c_ratio": 0.8,
        "theoretical_speedup": (1 - rate**5) / (1 - rate) / (4 * 0.8 + 1),
    }
    return {"config": {"gamma": 4, "max_new_tokens": 50}, "results": results, "samples": samples}


def shared_decoder(count: int = 3) -> dict[str, Any]:
    """One decoder on both models' features; the first draft is empty."""
    samples = [
        {
            "id": f"id-{index}",
            "draft_output": "a road" if index else "",
            "draft_tokens": [4, 6] if index else [0, 0],
            "draft_time": 0.9,
            "target_output": "the road",
            "target_tokens": [4, 9],
            "target_time": 0.9,
            "matched_tokens": 1 if index else 0,
            "total_tokens": 2,
            "acceptance_rate": 0.5 if index else 0.0,
        }
        for index in range(count)
    ]
    results = {"total_matched_tokens": count - 1, "total_tokens_compared": 2 * count, "c_ratio": 1.0}
    return {"config": {"test_samples": count}, "results": results, "samples": samples}


def word_estimates(count: int = 3) -> dict[str, Any]:
    """Texts and counts of tokens, with times of nobody knows what."""
    row = {
        "egpt_tokens": 40,
        "vl_tokens": 50,
        "egpt_time": 0.4,
        "vl_time": 0.9,
        "egpt_text": "a road",
        "vl_text": "the road",
        "word_overlap": 0.5,
        "char_similarity": 0.1,
        "acceptance_estimate": 0.3,
    }
    statistics = {"n_samples": count, "gamma": 5, "egpt_time_avg": 0.4, "acceptance_rate_avg": 0.3}
    return {
        "config": {"gamma": 5},
        "statistics": statistics,
        "errors": [],
        "results": [{"sample_idx": index} | row for index in range(count)],
    }


def token_lists(count: int = 3) -> dict[str, Any]:
    """Tokens without times, EventGPT's also through an adapter."""
    row = {
        "question": "What?",
        "egpt_tokens": [5, 6, 2],
        "egpt_text": "a road",
        "adapter_tokens": [4, 6, 2],
        "adapter_text": "the road",
        "vl_tokens": [4, 6, 7],
        "vl_text": "the road is",
        "consecutive_matches": 2,
        "total_matches": 2,
        "total_tokens": 3,
        "acceptance_rate": 2 / 3,
    }
    summary = {"total_samples": count, "avg_total_matches": 2.0, "consecutive_distribution": {"2": count}}
    return {
        "config": {"max_tokens": 50},
        "summary": summary,
        "results": [{"sample_idx": index} | row for index in range(count)],
    }


def verified_drafts(count: int = 3) -> dict[str, Any]:
    """A draft of four verified in one pass, beside the target alone; answers differ."""
    row = {
        "question": "What?",
        "vl_output_text": "the road",
        "vl_output_tokens": [4, 6, 2],
        "vl_time_ms": 1200.0,
        "adapted_draft_tokens": [6, 7, 8, 9],
        "sd_output_text": "road",
        "sd_output_tokens": [6, 2],
        "sd_time_ms": 600.0,
        "accepted_tokens": 0,
        "acceptance_rate": 0.0,
        "egpt_prefill_ms": 90.0,
        "egpt_draft_ms": 300.0,
        "vl_prefill_ms": 315.0,
        "vl_verify_ms": 65.0,
        "vl_decode_ms": 220.0,
        "output_matches": False,
        "speedup": 2.0,
    }
    summary = {"n_samples": count, "avg_acceptance_rate": 0.0, "avg_speedup": 2.0, "output_match_rate": 0.0}
    return {
        "config": {"max_tokens": 50},
        "summary": summary,
        "results": [{"sample_idx": index} | row for index in range(count)],
    }


RUNS = (
    "one_vs_eight",
    "sample_rows",
    "five_stages",
    "end_to_end",
    "with_errors",
    "prefill_rows",
    "four_stages",
    "matched_answers",
    "shared_decoder",
    "word_estimates",
    "token_lists",
    "verified_drafts",
)
"""Shapes whose rows are runs."""
