"""Small result files of the shapes that earlier scripts wrote. Values are made up; shapes and flaws are not."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import Any

PROMPT = "What are the key elements in this scene?"


def one_vs_eight(count: int = 30, *, first_is_slow: bool = True) -> dict[str, Any]:
    """Two lists of samples; the first of each warmed up."""
    sides = {"eventgpt": (0.0036, 0.0058, 0.0661, 0.0927), "videollava": (0.0786, 0.0294, 0.5681, 0.1439)}
    found: dict[str, Any] = {
        "timestamp": "20260124_193405",
        "datetime": "2026-01-24 20:15:21",
        "config": {"eventgpt_frames": 1, "videollava_frames": 8},
    }
    for side, times in sides.items():
        samples = []
        for index in range(count):
            wobble = 1 + 0.001 * ((index * 7) % 5 - 2)
            slow = (1.0, 15.0, 1.6, 1.0) if first_is_slow and index == 0 else (1.0,) * 4
            stage12, s3, s4, s5 = (time * wobble * factor for time, factor in zip(times, slow, strict=True))
            sample = {
                "sample": index,
                "prefill_len": 636 if side == "eventgpt" else 4643,
                "kv_cache_mb": 318.0 if side == "eventgpt" else 2321.5,
                "stage12_time": stage12,
                "s3_time": s3,
                "s4_time": s4,
                "s5_time": s5,
                "total_time": stage12 + s3 + s4 + s5,
            }
            samples.append(sample if side == "eventgpt" else {"n_frames": 8, **sample})
        found[side] = {"stats": _one_vs_eight_stats(samples), "samples": samples}
    return found


def _one_vs_eight_stats(samples: list[dict[str, Any]]) -> dict[str, float]:
    def mean(key: str) -> float:
        return fmean(sample[key] for sample in samples)

    keys = ("s3_time", "s4_time", "s5_time")
    return {
        "n_samples": len(samples),
        "prefill_len_avg": mean("prefill_len"),
        "kv_cache_mb_avg": mean("kv_cache_mb"),
        **{f"{key}_avg": mean(key) for key in keys},
        **{f"{key}_std": pstdev(sample[key] for sample in samples) for key in keys},
        "total_time_avg": sum(mean(key) for key in keys),
        "prefill_throughput": mean("prefill_len") / mean("s4_time"),
        "decode_throughput": 5 / mean("s5_time"),
    }


def sample_rows(count: int = 4) -> list[dict[str, Any]]:
    """A list of rows with three stages; memory only in the first, too few ids in the last."""
    rows = []
    for index in range(count):
        row: dict[str, Any] = {
            "id": f"id-{index}",
            "split": "test",
            "query": PROMPT,
            "event_data": f"scene/{index:06d}.npy",
            "egpt": "a road with a car on it",
            "egpt_time": 1.1,
            "egpt_stage1_time": 0.03,
            "egpt_stage2_time": 0.02,
            "egpt_stage3_time": 1.05,
            "egpt_token_ids": list(range(3, 12)),
            "video_data": f"scene/{index:06d}",
            "llava-1.5-7b-hf": "a long road",
            "llava_time": 2.4,
            "llava_stage1_time": 0.24,
            "llava_stage2_time": 0.1,
            "llava_stage3_time": 2.06,
            "llava_token_ids": [5, 6, 7, 8, 2],
        }
        if index == 0:
            row |= {"egpt_memory_model_mb": 13503.5, "egpt_memory_inference_mb": 13897.0}
            row |= {"llava_memory_model_mb": 13481.0, "llava_memory_inference_mb": 13848.0}
        rows.append(row)
    rows[-1]["egpt_token_ids"] = [4, 2]
    rows[-1]["llava_memory_model_mb"] = None
    return rows


def five_stages(count: int = 12) -> dict[str, Any]:
    """Five stages of both models: the video model's third brackets nothing, its length counts pictures twice."""
    results: list[dict[str, Any]] = []
    for index in range(count):
        slow = 10.0 if index == 0 else 1.0
        draft = _five((0.0016, 0.0036, 0.0077 * slow, 0.083, 0.44), [512, 278, 2], 637, "a road")
        target = {"num_frames": 8, **_five((0.52, 0.061, 3.3e-06, 0.315, 0.72), [450, 6, 7, 8], 4124, "the road is")}
        acceptance = {"word_overlap": 0.4, "char_similarity": 0.1, "length_similarity": 0.75}
        rate = 0.5 * 0.4 + 0.3 * 0.1 + 0.2 * 0.75
        window = target["prefill_complete_time"] - draft["prefill_complete_time"]
        results.append(
            {
                "sample_idx": index,
                "eventgpt": {"model": "EventGPT", **draft},
                "videollava": {"model": "Video-LLaVA", **target},
                "acceptance": {"acceptance_rate": rate, **acceptance},
                "parallel": {"overlap_window": window, "hidden_tokens": 3, "wall_clock_total": target["total_time"]},
            }
        )
    return {
        "timestamp": "20260127_115340",
        "datetime": "2026-01-27 11:57:13",
        "config": {"quantization": "4bit", "max_new_tokens": 50, "device": "cuda"},
        "gpu_memory": {"eventgpt_model_mb": 3904.75, "videollava_model_mb": 4047.75},
        "results": results,
        "errors": [],
    }


def _five(times: tuple[float, ...], tokens: list[int], length: int, text: str) -> dict[str, Any]:
    return {
        **{f"stage{place}_time": time for place, time in enumerate(times, start=1)},
        "prefill_length": length,
        "output_tokens": tokens,
        "output_text": text,
        "num_output_tokens": len(tokens),
        "tokens_per_sec": len(tokens) / times[4],
        "total_time": sum(times),
        "prefill_complete_time": sum(times[:4]),
        "gpu_memory_mb": {"before": 7952.5, "after": 8315.5, "peak": 8657.5},
    }


def end_to_end(count: int = 4) -> dict[str, Any]:
    """The target alone and with two adapters that share one measurement of both prefills."""
    questions = [f"Question {index}?" for index in range(count)]
    baseline: list[dict[str, Any]] = [
        {
            "sample": 0,
            "question": question,
            "prefill_ms": 325.0 + index,
            "decode_ms": 700.0,
            "total_ms": 1025.0 + index,
            "n_tokens": 50,
            "text": "the road",
        }
        for index, question in enumerate(questions)
    ]
    adapters = {name: [_speculative(index, questions[index]) for index in range(count)] for name in ("L1+VL", "L2+VL")}
    return {
        "timestamp": "20260207_103845",
        "config": {"max_samples": 1, "max_new_tokens": 50, "gamma": 5, "warmup": 0, "n_questions": count},
        "stage_timing": {"videollava": {"vision_ms": 0.0, "prefill_ms": 357.5, "decode_ms": 747.0}},
        "baseline_per_sample": baseline,
        "sd_per_sample": adapters,
    }


def _speculative(index: int, question: str) -> dict[str, Any]:
    return {
        "sample": 0,
        "question": question,
        "bl_total_ms": 1025.0 + index,
        "parallel_prefill_ms": 500.0 + index,
        "egpt_prefill_ms": 100.0,
        "vl_prefill_ms": 330.0,
        "egpt_decode_ms": 350.0,
        "overlap_ms": 0,
        "sd_decode_ms": 800.0 - index,
        "sd_total_ms": 1650.0,
        "speedup": (1025.0 + index) / 1650.0,
        "n_tokens": 50,
        "drafted": 5,
        "accepted": 1,
        "accept_rate": 0.2,
        "tokens_per_iter": 50,
        "text": "the road",
    }


def with_errors() -> dict[str, Any]:
    out_of_memory = "CUDA out of memory. Tried to allocate 20.00 MiB."
    return {
        "timestamp": "20260125_012027",
        "datetime": "2026-01-25 01:20:27",
        "config": {"max_samples": 3, "device": "cuda", "max_draft_tokens": 32, "quantization": "bf16"},
        "results": [
            {
                "sample_idx": 0,
                "egpt_prefill_time": 0.228,
                "egpt_prefill_length": 637,
                "vl_prefill_time": 0,
                "vl_prefill_length": 0,
                "draft_tokens": 30,
                "draft_time": 0.54,
                "total_time": 0.79,
                "overlap_window": -0.228,
                "egpt_error": None,
                "vl_error": "'NoneType' object has no attribute",
            }
        ],
        "errors": [{"sample_idx": index, "error": out_of_memory} for index in (1, 2)],
    }


def prefill_rows(count: int = 6) -> dict[str, Any]:
    """Prefill and drafting per model; the video model's text was generated anew."""
    results = [
        {
            "sample_idx": index,
            "eventgpt": {
                "vision_time": 0.09 if index == 0 else 0.009,
                "prefill_time": 0.08,
                "prefill_length": 637,
                "draft_tokens": 3,
                "draft_time": 0.4,
                "total_time": 0.57 if index == 0 else 0.489,
                "output_tokens": [5, 6, 2],
                "output_text": "a road",
            },
            "videollava": {
                "vision_time": 0,
                "prefill_time": 0.3,
                "prefill_length": 2075,
                "generation_time": 1.1,
                "total_time": 1.4,
                "output_tokens": [7, 8, 9, 2],
                "output_text": "the long road",
            },
            "parallel": {"overlap_window": 0.2, "theoretical_draft_tokens": 6, "actual_draft_tokens": 3},
        }
        for index in range(count)
    ]
    return {
        "datetime": "2026-01-25 11:20:10",
        "config": {"quantization": "4bit", "max_samples": count, "max_new_tokens": 100, "query": "What is there?"},
        "results": results,
        "errors": [],
    }


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
    return {"config": {"max_new_tokens": 100, "gamma": 4}, "eventgpt_results": draft, "videollava_results": target}


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
    return {"config": {"gamma": 4, "max_new_tokens": 50}, "samples": samples}


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
    return {"config": {"test_samples": count}, "samples": samples}


def word_estimates(count: int = 3) -> dict[str, Any]:
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
    return {"config": {"gamma": 5}, "errors": [], "results": [{"sample_idx": index} | row for index in range(count)]}


def token_lists(count: int = 3) -> dict[str, Any]:
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
    return {"config": {"max_tokens": 50}, "results": [{"sample_idx": index} | row for index in range(count)]}


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
    return {"config": {"max_tokens": 50}, "results": [{"sample_idx": index} | row for index in range(count)]}


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
