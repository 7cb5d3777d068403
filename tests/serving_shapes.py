"""Small result files of exactly the shapes that vLLM, SGLang and AIPerf write: their keys in their order.

Values are made up. Read in the writers: vllm/benchmarks/serve.py, latency.py and throughput.py (vllm-project/vllm),
python/sglang/benchmark/serving.py, one_batch.py and one_batch_server.py (sgl-project/sglang), docs and models of
ai-dynamo/aiperf.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

REQUESTS = (
    # input, output, time to the first token, gaps (s)
    (512, 4, 0.081, (0.011, 0.0125, 0.0118)),
    (640, 3, 0.0933, (0.0121, 0.0109)),
    (300, 5, 0.0712, (0.0117, 0.0122, 0.0113, 0.0119)),
)
FAILED_INPUT = 128
ERROR = 'Traceback (most recent call last):\n  File "x.py", line 3\nTimeoutError: no answer after 30 s\n'


def statistics(name: str, values: list[float], percentiles: tuple[int, ...] = (99,)) -> dict[str, float]:
    """mean, median, std and percentiles of times in s, in ms."""
    listed = np.array(values or [0.0]) * 1000
    found = {f"mean_{name}_ms": listed.mean(), f"median_{name}_ms": np.median(listed), f"std_{name}_ms": listed.std()}
    found |= {f"p{each}_{name}_ms": np.percentile(listed, each) for each in percentiles}
    return {key: float(value) for key, value in found.items()}


def vllm_serving(*, is_detailed: bool = True, is_speculative: bool = False, fails: bool = True) -> dict[str, Any]:
    """One benchmark of `vllm bench serve --save-result`; the last request failed."""
    latencies = [first + sum(gaps) for _, _, first, gaps in REQUESTS]
    tpots = [sum(gaps) / (tokens - 1) for _, tokens, _, gaps in REQUESTS]
    outputs = sum(tokens for _, tokens, _, _ in REQUESTS)
    inputs = sum(lent for lent, *_ in REQUESTS)
    none = [0.0] if fails else []
    found: dict[str, Any] = {
        "date": "20260714-101502",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "example/video-7b",
        "tokenizer_id": "example/video-7b",
        "num_prompts": len(REQUESTS) + len(none),
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": 2,
        "duration": 0.25,
        "completed": len(REQUESTS),
        "failed": len(none),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(REQUESTS) / 0.25,
        "request_goodput": None,
        "output_throughput": outputs / 0.25,
        "total_token_throughput": (inputs + outputs) / 0.25,
        "input_lens": [*(lent for lent, *_ in REQUESTS), *([FAILED_INPUT] if fails else [])],
        "output_lens": [*(tokens for _, tokens, *_ in REQUESTS), *([0] if fails else [])],
        "ttfts": [*(first for _, _, first, _ in REQUESTS), *none],
        "itls": [*(list(gaps) for *_, gaps in REQUESTS), *([[]] if fails else [])],
        "latencies": [*latencies, *none],
        "start_times": [100.0, 100.01, 100.02, *([100.03] if fails else [])],
        "queue_times": [0.0, 1e-5, 0.031, *([0.05] if fails else [])],
        "generated_texts": [*(f"answer {place}" for place in range(len(REQUESTS))), *([""] if fails else [])],
        "errors": [*("" for _ in REQUESTS), *([ERROR] if fails else [])],
        "max_output_tokens_per_s": 12.0,
        "max_concurrent_requests": 2,
        "rtfx": 0.0,
    }
    if is_speculative:
        found |= {
            "spec_decode_acceptance_rate": 37.5,
            "spec_decode_acceptance_length": 1 + 6 / 8,
            "spec_decode_num_drafts": 8,
            "spec_decode_draft_tokens": 16,
            "spec_decode_accepted_tokens": 6,
            "spec_decode_per_position_acceptance_rates": [0.5, 0.25],
        }
    found |= statistics("ttft", [first for _, _, first, _ in REQUESTS])
    found |= statistics("tpot", tpots)
    found |= statistics("itl", [gap for *_, gaps in REQUESTS for gap in gaps])
    found |= statistics("client_queue_time", [0.0, 1e-5, 0.031])
    if not is_detailed:
        for name in ("input_lens", "output_lens", "start_times", "ttfts", "itls", "generated_texts", "errors"):
            del found[name]
    return found


def vllm_appended() -> str:
    """Two benchmarks in one file, as `--append-result` writes them."""
    second = vllm_serving() | {"date": "20260714-101702", "request_rate": 4.0, "max_concurrency": None}
    return "\n".join(json.dumps(entry) for entry in (vllm_serving(), second))


def sglang_serving(*, is_detailed: bool = True, accept_length: float | None = None) -> dict[str, Any]:
    """A line of `python -m sglang.bench_serving`; the last request failed."""
    latencies = [first + sum(gaps) + 0.0004 for _, _, first, gaps in REQUESTS]
    tpots = [(total - row[2]) / (row[1] - 1) for total, row in zip(latencies, REQUESTS, strict=True)]
    outputs = sum(tokens for _, tokens, *_ in REQUESTS)
    inputs = sum(lent for lent, *_ in REQUESTS)
    found: dict[str, Any] = {
        "tag": None,
        "backend": "sglang-oai-chat",
        "dataset_name": "image",
        "request_rate": float("inf"),
        "max_concurrency": None,
        "sharegpt_output_len": None,
        "random_input_len": 64,
        "random_output_len": 8,
        "random_range_ratio": 0.0,
        "server_info": {"model_path": "example/video-7b", "internal_states": [{"avg_spec_accept_length": None}]},
        "duration": 0.25,
        "completed": len(REQUESTS),
        "total_input_tokens": inputs,
        "total_input_text_tokens": 192,
        "total_input_vision_tokens": inputs - 192,
        "total_output_tokens": outputs,
        "total_output_tokens_retokenized": outputs,
        "request_throughput": len(REQUESTS) / 0.25,
        "input_throughput": inputs / 0.25,
        "output_throughput": outputs / 0.25,
        "total_throughput": (inputs + outputs) / 0.25,
    }
    found |= statistics("e2e_latency", latencies, (90, 95, 99))
    found |= statistics("ttft", [first for _, _, first, _ in REQUESTS], (90, 95, 99))
    found |= statistics("tpot", tpots, (90, 95, 99))
    found |= statistics("itl", [gap for *_, gaps in REQUESTS for gap in gaps], (90, 95, 99))
    found |= {
        "concurrency": sum(latencies) / 0.25,
        "accept_length": accept_length,
        "max_output_tokens_per_s": 12.0,
        "max_concurrent_requests": 3,
    }
    if is_detailed:
        found |= {
            "input_lens": [*(lent for lent, *_ in REQUESTS), FAILED_INPUT],
            "output_lens": [*(tokens for _, tokens, *_ in REQUESTS), 0],
            "ttfts": [*(first for _, _, first, _ in REQUESTS), 0.0],
            "itls": [*(list(gaps) for *_, gaps in REQUESTS), []],
            "generated_texts": [*(f"answer {place}" for place in range(len(REQUESTS))), ""],
            "errors": [*("" for _ in REQUESTS), ERROR],
        }
    return found


def sglang_lines() -> str:
    rest = [sglang_serving(is_detailed=False) | {"max_concurrency": most} for most in (4, 16)]
    return "".join(json.dumps(entry) + "\n" for entry in (sglang_serving(), *rest))


def sglang_batches() -> str:
    """Lines of `sglang.bench_one_batch`, whose first has no decoding, and of `sglang.bench_one_batch_server`."""
    sizes = {"run_name": "default", "batch_size": 1, "input_len": 256, "output_len": 8}
    prefill = {"prefill_latency": 0.034, "prefill_throughput": 256 / 0.034}
    decode = {"median_decode_latency": 0.008, "median_decode_throughput": 125.0}
    total = {"total_latency": 0.0911, "overall_throughput": 264 / 0.0911}
    server = {
        "run_name": "mine",
        "batch_size": 8,
        "input_len": 1024,
        "output_len": 16,
        "latency": 0.4011,
        "input_throughput": 40_960.0,
        "output_throughput": 410.2,
        "overall_throughput": 20_742.0,
        "last_ttft": 0.2001,
        "last_gen_throughput": 400.5,
        "acc_length": 2.31,
        "cache_hit_rate": None,
    }
    return "".join(json.dumps(line) + "\n" for line in (sizes | prefill | decode | total, server))


def aiperf_record(place: int, *, phase: str = "profiling", speculates: bool = False) -> dict[str, Any]:
    lent, tokens, first, gaps = REQUESTS[place % len(REQUESTS)]
    latency = 1000 * (first + sum(gaps))
    start = 1_759_813_207_000_000_000 + place * 50_000_000
    metrics: dict[str, Any] = {
        "input_sequence_length": {"value": lent, "unit": "tokens"},
        "time_to_first_token": {"value": 1000 * first, "unit": "ms"},
        "request_latency": {"value": latency, "unit": "ms"},
        "output_token_count": {"value": tokens, "unit": "tokens"},
        "inter_chunk_latency": {"value": [1000 * gap for gap in gaps], "unit": "ms"},
        "output_sequence_length": {"value": tokens, "unit": "tokens"},
        "inter_token_latency": {"value": (latency - 1000 * first) / (tokens - 1), "unit": "ms"},
        "a_metric_of_tomorrow": {"value": {"deep": [1, 2]}, "unit": "furlongs"},
    }
    found: dict[str, Any] = {
        "metadata": {
            "session_num": place,
            "x_request_id": f"7609a2e7-{place}",
            "conversation_id": f"scene-{place % len(REQUESTS)}",
            "turn_index": 0,
            "request_start_ns": start,
            "request_ack_ns": None,
            "request_end_ns": start + round(latency * 1e6),
            "worker_id": "worker_1",
            "record_processor_id": "processor_1",
            "benchmark_phase": phase,
            "was_cancelled": False,
            "cancellation_time_ns": None,
        },
        "metrics": metrics,
        "trace_data": {"trace_type": "aiohttp", "chunks": [[1, 2]] * 3},
        "error": None,
    }
    if speculates:
        found["spec_decode_acceptance"] = {
            "engine": "vllm",
            "mean_acceptance_length": 1 + 3 / 2,
            "draft_acceptance_rate": 0.5,
            "acceptance_histogram": {"1": 1, "2": 1},
            "num_accepted_draft_tokens": 3,
            "num_draft_tokens": 6,
            "num_spec_steps": 2,
            "num_spec_tokens": 3,
        }
    return found


def aiperf_failure(*, was_cancelled: bool = True) -> dict[str, Any]:
    found = aiperf_record(3)
    found["metadata"] |= {"was_cancelled": was_cancelled, "request_start_ns": 1_759_813_208_000_000_000}
    error = {"code": 499, "type": "RequestCancellationError", "message": "Request was cancelled after 0.000 seconds"}
    return found | {"metrics": {"error_isl": {"value": 550, "unit": "tokens"}}, "error": error}


def aiperf_records(*, speculates: bool = False) -> str:
    """`profile_export.jsonl`: a warm-up, three answers and a cancelled request."""
    rows = [aiperf_record(2, phase="warmup", speculates=speculates)]
    rows += [aiperf_record(place, speculates=speculates) for place in range(3)]
    return "".join(json.dumps(row) + "\n" for row in (*rows, aiperf_failure()))


FILES = {
    "vllm.json": lambda: json.dumps(vllm_serving()),
    "vllm_speculative.json": lambda: json.dumps(vllm_serving(is_speculative=True)),
    "vllm_short.json": lambda: json.dumps(vllm_serving(is_detailed=False)),
    "vllm_appended.json": vllm_appended,
    "sglang.jsonl": sglang_lines,
    "sglang_speculative.jsonl": lambda: json.dumps(sglang_serving(accept_length=2.4)) + "\n",
    "sglang_batches.jsonl": sglang_batches,
    "profile_export.jsonl": aiperf_records,
    "profile_export_speculative.jsonl": lambda: aiperf_records(speculates=True),
}
"""A file of every kind by its name."""
