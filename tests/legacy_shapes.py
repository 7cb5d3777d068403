"""Small result files of the shapes that earlier scripts wrote. Values are made up; shapes and flaws are not."""

from __future__ import annotations

from statistics import fmean
from typing import Any

PROMPT = "What are the key elements in this scene?"

Row = dict[str, Any]


def _row(names: str, *values: Any) -> Row:
    return dict(zip(names.split(), values, strict=True))


def one_vs_eight(count: int = 30, *, first_is_slow: bool = True) -> Row:
    """Two lists of samples; the first of each warmed up."""
    sides = {"eventgpt": (0.0036, 0.0058, 0.0661, 0.0927), "videollava": (0.0786, 0.0294, 0.5681, 0.1439)}
    found: Row = {
        "timestamp": "20260124_193405",
        "datetime": "2026-01-24 20:15:21",
        "config": {"eventgpt_frames": 1, "videollava_frames": 8},
    }
    for side, times in sides.items():
        samples = []
        for index in range(count):
            wobble = 1 + 0.001 * ((index * 7) % 5 - 2)
            slow = (1.0, 15.0, 1.6, 1.0) if first_is_slow and index == 0 else (1.0,) * 4
            parts = [time * wobble * factor for time, factor in zip(times, slow, strict=True)]
            sizes = (636, 318.0) if side == "eventgpt" else (4643, 2321.5)
            names = "sample prefill_len kv_cache_mb stage12_time s3_time s4_time s5_time total_time"
            samples.append(_row(names, index, *sizes, *parts, sum(parts)))
        found[side] = {"stats": _one_vs_eight_stats(samples), "samples": samples}
    return found


def _one_vs_eight_stats(samples: list[Row]) -> dict[str, float]:
    mean = fmean(sample["s5_time"] for sample in samples)
    return {"n_samples": len(samples), "s5_time_avg": mean, "decode_throughput": 5 / mean}


def sample_rows(count: int = 4) -> list[Row]:
    """A list of rows with three stages; memory only in the first, too few ids in the last."""
    rows = []
    for index in range(count):
        path = f"scene/{index:06d}"
        row = _row("id split query event_data video_data", f"id-{index}", "test", PROMPT, f"{path}.npy", path)
        row |= {"egpt": "a road with a car on it", "egpt_token_ids": list(range(3, 12))}
        row |= {"llava-1.5-7b-hf": "a long road", "llava_token_ids": [5, 6, 7, 8, 2]}
        for prefix, times in {"egpt": (0.03, 0.02, 1.05), "llava": (0.24, 0.1, 2.06)}.items():
            row |= {f"{prefix}_stage{place}_time": time for place, time in enumerate(times, start=1)}
            row[f"{prefix}_time"] = sum(times)
        if index == 0:
            row |= {"egpt_memory_model_mb": 13503.5, "egpt_memory_inference_mb": 13897.0}
            row |= {"llava_memory_model_mb": 13481.0, "llava_memory_inference_mb": 13848.0}
        rows.append(row)
    rows[-1]["egpt_token_ids"] = [4, 2]
    rows[-1]["llava_memory_model_mb"] = None
    return rows


def five_stages(count: int = 12) -> Row:
    """Five stages of both models: the video model's third brackets nothing, its length counts pictures twice."""
    results: list[Row] = []
    for index in range(count):
        slow = 10.0 if index == 0 else 1.0
        draft = _five((0.0016, 0.0036, 0.0077 * slow, 0.083, 0.44), [512, 278, 2], 637, "a road")
        target = {"num_frames": 8, **_five((0.52, 0.061, 3.3e-06, 0.315, 0.72), [450, 6, 7, 8], 4124, "the road is")}
        window = sum(target[f"stage{place}_time"] - draft[f"stage{place}_time"] for place in range(1, 5))
        names = "acceptance_rate word_overlap char_similarity length_similarity"
        results.append(
            {
                "sample_idx": index,
                "eventgpt": {"model": "EventGPT", **draft},
                "videollava": {"model": "Video-LLaVA", **target},
                "acceptance": _row(names, 0.38, 0.4, 0.1, 0.75),
                "parallel": {"overlap_window": window, "hidden_tokens": 3, "wall_clock_total": target["total_time"]},
            }
        )
    return {
        "datetime": "2026-01-27 11:57:13",
        "config": {"quantization": "4bit", "max_new_tokens": 50, "device": "cuda"},
        "gpu_memory": {"eventgpt_model_mb": 3904.75, "videollava_model_mb": 4047.75},
        "results": results,
        "errors": [],
    }


def _five(times: tuple[float, ...], tokens: list[int], length: int, text: str) -> Row:
    names = "prefill_length output_tokens output_text num_output_tokens tokens_per_sec total_time gpu_memory_mb"
    values = (length, tokens, text, len(tokens), len(tokens) / times[4], sum(times), {"peak": 8657.5})
    return {f"stage{place}_time": time for place, time in enumerate(times, start=1)} | _row(names, *values)


def end_to_end(count: int = 4) -> Row:
    """The target alone and with two adapters that share one measurement of both prefills."""
    plain = "sample question prefill_ms decode_ms total_ms n_tokens text"
    drafted = "sample question parallel_prefill_ms egpt_prefill_ms vl_prefill_ms egpt_decode_ms overlap_ms sd_decode_ms"
    counts = _row("n_tokens drafted accepted accept_rate tokens_per_iter text", 50, 5, 1, 0.2, 50, "the road")
    baseline, adapters = [], []
    for index in range(count):
        question, total = f"Question {index}?", 1025.0 + index
        baseline.append(_row(plain, 0, question, 325.0 + index, 700.0, total, 50, "the road"))
        row = _row(drafted, 0, question, 500.0 + index, 100.0, 330.0, 350.0, 0, 800.0 - index)
        adapters.append(row | _row("bl_total_ms sd_total_ms speedup", total, 1650.0, total / 1650.0) | counts)
    return {
        "timestamp": "20260207_103845",
        "config": {"max_samples": 1, "max_new_tokens": 50, "gamma": 5, "warmup": 0, "n_questions": count},
        "stage_timing": {"videollava": {"vision_ms": 0.0, "prefill_ms": 357.5, "decode_ms": 747.0}},
        "baseline_per_sample": baseline,
        "sd_per_sample": {name: [dict(row) for row in adapters] for name in ("L1+VL", "L2+VL")},
    }


def with_errors() -> Row:
    names = "sample_idx egpt_prefill_time egpt_prefill_length vl_prefill_time vl_prefill_length draft_tokens draft_time"
    row = _row(names, 0, 0.228, 637, 0, 0, 30, 0.54) | {"total_time": 0.79, "overlap_window": -0.228}
    row |= {"egpt_error": None, "vl_error": "'NoneType' object has no attribute"}
    error = "CUDA out of memory. Tried to allocate 20.00 MiB."
    return {
        "datetime": "2026-01-25 01:20:27",
        "config": {"max_samples": 3, "device": "cuda", "max_draft_tokens": 32, "quantization": "bf16"},
        "results": [row],
        "errors": [{"sample_idx": index, "error": error} for index in (1, 2)],
    }


def prefill_rows(count: int = 6) -> Row:
    """Prefill and drafting per model; the video model's text was generated anew."""
    draft = "vision_time prefill_time prefill_length draft_tokens draft_time total_time output_tokens output_text"
    target = "vision_time prefill_time prefill_length generation_time total_time output_tokens output_text"
    results = []
    for index in range(count):
        vision, total = (0.09, 0.57) if index == 0 else (0.009, 0.489)
        sides = {
            "eventgpt": _row(draft, vision, 0.08, 637, 3, 0.4, total, [5, 6, 2], "a road"),
            "videollava": _row(target, 0, 0.3, 2075, 1.1, 1.4, [7, 8, 9, 2], "the long road"),
        }
        results.append({"sample_idx": index, **sides, "parallel": {"overlap_window": 0.2}})
    return {
        "datetime": "2026-01-25 11:20:10",
        "config": {"quantization": "4bit", "max_samples": count, "max_new_tokens": 100, "query": "What is there?"},
        "results": results,
        "errors": [],
    }


def four_stages(count: int = 4) -> Row:
    """Both models in lists of their own; the target's ids begin with its prompt."""
    prompt = [1, 3148, *([32000] * 576), 13, 22933, 9047, 13566, 29901]
    lists = {}
    for side, last, text, ids in (
        ("eventgpt", 0.85, "a road", [512, 6, 2]),
        ("videollava", 1.7, "the road", [*prompt, 450, 6, 2]),
    ):
        times = (0.008, 0.017, 0.03, last)
        row = {f"stage{place}_time": time for place, time in enumerate(times, start=1)}
        row |= _row("total_time output tokens token_ids", sum(times), text, len(ids), ids)
        lists[f"{side}_results"] = [{"sample": index, **row} for index in range(count)]
    return {"config": {"max_new_tokens": 100, "gamma": 4}, **lists}


def _results(row: Row, count: int, config: Row) -> Row:
    return {"config": config, "errors": [], "results": [{"sample_idx": index} | row for index in range(count)]}


def matched_answers(count: int = 3) -> Row:
    """Two models' answers as ids with whole times, and the number of ids equal at their places."""
    row = _row("eventgpt_output eventgpt_tokens eventgpt_time", "a road", [5, 6, 2], 1.0)
    row |= _row("videollava_output videollava_tokens videollava_time", "the road", [4, 6, 7, 2], 1.25)
    row |= {"accepted_tokens": 1, "total_compared": 3}
    samples = [{"id": f"id-{index}", **row} for index in range(count)]
    return {"config": {"gamma": 4, "max_new_tokens": 50}, "samples": samples}


def shared_decoder(count: int = 3) -> Row:
    """One decoder on both models' features; the first draft is empty."""
    names = (
        "id draft_output draft_tokens draft_time target_output target_tokens target_time matched_tokens total_tokens"
    )
    samples = []
    for index in range(count):
        draft = ("a road", [4, 6]) if index else ("", [0, 0])
        samples.append(_row(names, f"id-{index}", *draft, 0.9, "the road", [4, 9], 0.9, int(index > 0), 2))
    return {"config": {"test_samples": count}, "samples": samples}


def word_estimates(count: int = 3) -> Row:
    names = "egpt_tokens vl_tokens egpt_time vl_time egpt_text vl_text acceptance_estimate"
    return _results(_row(names, 40, 50, 0.4, 0.9, "a road", "the road", 0.3), count, {"gamma": 5})


def token_lists(count: int = 3) -> Row:
    row = _row("question total_matches total_tokens", "What?", 2, 3)
    row |= {"egpt_tokens": [5, 6, 2], "adapter_tokens": [4, 6, 2], "vl_tokens": [4, 6, 7]}
    row |= {"egpt_text": "a road", "adapter_text": "the road", "vl_text": "the road is"}
    return _results(row, count, {"max_tokens": 50})


def verified_drafts(count: int = 3) -> Row:
    """A draft of four verified in one pass, beside the target alone; answers differ."""
    row = _row("question vl_output_text vl_output_tokens vl_time_ms", "What?", "the road", [4, 6, 2], 1200.0)
    row |= _row("adapted_draft_tokens accepted_tokens speedup output_matches", [6, 7, 8, 9], 0, 2.0, False)
    row |= _row("sd_output_text sd_output_tokens sd_time_ms", "road", [6, 2], 600.0)
    row |= _row(
        "egpt_prefill_ms egpt_draft_ms vl_prefill_ms vl_verify_ms vl_decode_ms", 90.0, 300.0, 315.0, 65.0, 220.0
    )
    return _results(row, count, {"max_tokens": 50})


RUNS = (
    *("one_vs_eight", "sample_rows", "five_stages", "end_to_end", "with_errors", "prefill_rows", "four_stages"),
    *("matched_answers", "shared_decoder", "word_estimates", "token_lists", "verified_drafts"),
)
"""All shapes."""
