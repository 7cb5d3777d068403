"""Small result files of the families that came later: answers side by side, drafts, trainings, statistics alone.

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


def feature_similarity() -> dict[str, Any]:
    """Pooled features before and after an adapter; two samples of a thousand are listed."""
    before = {"mean_cosine_similarity": 0.6, "std": 0.1, "acceptance_at_0.8": 2.0}
    after = {"mean_cosine_similarity": 0.9, "std": 0.1, "acceptance_at_0.8": 86.0}
    return {
        "total_samples": 1000,
        "before_adapter": before,
        "after_adapter": after,
        "improvement": {"cosine_sim_gain": 0.9 - 0.6, "acceptance_gain_0.8": 84.0},
        "timing": {"total_adapter_time": 0.1, "samples_per_second": 10_000.0},
        "sample_results": [{"id": "a", "cos_sim_before": 0.7, "cos_sim_after": 0.9, "accepted_at_0.8": True}] * 2,
    }


def hidden_state_acceptance() -> dict[str, Any]:
    """Shares of positions above thresholds, and times worked out from constants."""
    decode = 50 / 1.5 * (25.0 * 6 + 1.5)
    return {
        "hidden_dim": 4096,
        "total_valid_positions": 1000,
        "cos_sim_mean": 0.9,
        "accept_90": 0.6,
        "consecutive_mean_90": 0.4,
        "num_hidden_tokens_mean": 40.0,
        "sd_accept_rate_prefill_gamma": 0.01,
        "sd_consecutive_gamma5": 0.5,
        "e2e_num_output_tokens": 50,
        "e2e_baseline_time_ms": 1560.0,
        "e2e_sd_time_ms": 310.0 + decode,
        "speedup_e2e": 1560.0 / (310.0 + decode),
        "cosim_90_count": 600,
        "position_accept_90": [0.1, 0.5, 0.7],
    }


def position_statistics(count: int = 4) -> list[dict[str, Any]]:
    """A row per position of the answer."""
    return [
        {"position": place, "mean": 0.8 + 0.01 * place, "std": 0.1, "num_samples": 100, "accept_80": 0.5}
        for place in range(count)
    ]


def two_phases(*, has_prefill: bool = False) -> dict[str, Any]:
    """An estimate whose first phase was skipped, or not."""
    free = 4.0 if has_prefill else 0.0
    total = 310.0 + (50 - free) / 1.5 * 26.5
    return {
        "label": "L1",
        "no_prefill": not has_prefill,
        "gamma_decode": 5,
        "num_output_tokens": 50,
        "phase1_prefill_top1": 0.2 if has_prefill else 0.0,
        "phase1_free_tokens": free,
        "phase1_time_saved_ms": 25 * free,
        "phase2_shifted_top1": 0.4,
        "phase2_decode_consecutive": 0.5,
        "baseline_time_ms": 1560.0,
        "sd_time_ms": total,
        "e2e_speedup": 1560.0 / total,
    }


def training_history(count: int = 5) -> dict[str, list[float]]:
    """Losses and a share by epoch; the best epoch is the last but one."""
    losses = [1.0 - 0.1 * epoch for epoch in range(count)]
    losses[-1] = losses[-2] + 0.05
    return {"train_loss": losses, "val_loss": losses, "val_accept_80": [0.2] * count}


def token_adapter_training() -> dict[str, Any]:
    """Shares guessed right before and after, with stage times of another file: one split has them, one has zeros."""

    def split(most: float) -> dict[str, Any]:
        stages = {"stage1": {"mean": most / 2, "std": 0.0, "min": 0.0, "max": most}}
        return {
            "num_samples": 10,
            "acceptance_rate": 0.25,
            "top5_rate": 0.4,
            "total_correct": 25,
            "total_tokens": 100,
            "inference_time_sec": 0.5,
            "samples_per_sec": 20.0,
            "timing_stats": {"eventgpt": stages},
        }

    return {
        "timestamp": "2026-01-27T21:53:39",
        "config": {"num_epochs": 2},
        "model_params": 45,
        "baseline": {"test": {"acceptance_rate": 0.02, "total_correct": 2, "total_tokens": 100}},
        "final": {"train": split(0.02), "test": split(0.0)},
        "best_val_acc": 0.25,
        "training_history": [{"epoch": 1, "val_acc": 0.1}, {"epoch": 2, "val_acc": 0.25}],
    }


def mock_steps() -> dict[str, Any]:
    """Steps of a stand-in, three runs of one and one run of another."""
    three = {
        "durations": [0.1, 0.2, 0.3],
        "average": 0.2,
        "minimum": 0.1,
        "maximum": 0.3,
        "std_dev": 0.1,
        "num_runs": 3,
    }
    one = {"average": 0.5, "minimum": 0.5, "maximum": 0.5, "std_dev": 0.0, "count": 1}
    return {
        "benchmark_info": {"num_runs": 3},
        "total_times": [7.0, 7.1, 7.2],
        "step_statistics": {"step2: encode": three, "step3: generate": one},
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

STATISTICS = (
    "feature_similarity",
    "hidden_state_acceptance",
    "position_statistics",
    "two_phases",
    "training_history",
    "token_adapter_training",
    "mock_steps",
)
"""Shapes that hold statistics and no runs."""
