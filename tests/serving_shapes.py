"""Small result files of the shapes that vLLM, SGLang and AIPerf write, without statistics. Values are made up.

Writers: vllm/benchmarks/serve.py (vllm-project/vllm), python/sglang/benchmark/serving.py, one_batch.py and
one_batch_server.py (sgl-project/sglang), docs and models of ai-dynamo/aiperf.
"""

from __future__ import annotations

import json
from typing import Any

REQUESTS = (
    # input, output, time to the first token, gaps (s)
    (512, 4, 0.081, (0.011, 0.0125, 0.0118)),
    (640, 3, 0.0933, (0.0121, 0.0109)),
    (300, 5, 0.0712, (0.0117, 0.0122, 0.0113, 0.0119)),
)
ERROR = 'Traceback (most recent call last):\n  File "x.py", line 3\nTimeoutError: no answer after 30 s\n'


def _requests(*, fails: bool = True) -> dict[str, list[Any]]:
    """The parallel lists of a benchmark; the last request failed."""
    failed: list[list[Any]] = [[128], [0], [0.0], [[]], [""], [ERROR]] if fails else [[]] * 6
    columns: list[list[Any]] = [
        [given for given, *_ in REQUESTS],
        [tokens for _, tokens, *_ in REQUESTS],
        [first for *_, first, _ in REQUESTS],
        [list(gaps) for *_, gaps in REQUESTS],
        [f"answer {place}" for place in range(len(REQUESTS))],
        [""] * len(REQUESTS),
    ]
    names = ("input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors")
    return {name: column + last for name, column, last in zip(names, columns, failed, strict=True)}


def vllm_serving(*, is_detailed: bool = True, is_speculative: bool = False, fails: bool = True) -> dict[str, Any]:
    """One benchmark of `vllm bench serve --save-result`; the last request failed."""
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
        "request_throughput": len(REQUESTS) / 0.25,
        **_requests(fails=fails),
        "latencies": [*(first + sum(gaps) for _, _, first, gaps in REQUESTS), *none],
        "start_times": [100.0, 100.01, 100.02, *([100.03] if fails else [])],
        "queue_times": [0.0, 1e-5, 0.031, *([0.05] if fails else [])],
    }
    if is_speculative:
        found |= {
            "spec_decode_num_drafts": 8,
            "spec_decode_draft_tokens": 16,
            "spec_decode_accepted_tokens": 6,
            "spec_decode_per_position_acceptance_rates": [0.5, 0.25],
        }
    if not is_detailed:
        for name in (*_requests(), "start_times"):
            del found[name]
    return found


def vllm_appended() -> str:
    """Two benchmarks in one file, as `--append-result` writes them."""
    second = vllm_serving() | {"date": "20260714-101702", "request_rate": 4.0, "max_concurrency": None}
    return "\n".join(json.dumps(entry) for entry in (vllm_serving(), second))


def sglang_serving(*, is_detailed: bool = True, accept_length: float | None = None) -> dict[str, Any]:
    """A line of `python -m sglang.bench_serving`; the last request failed."""
    return {
        "tag": None,
        "backend": "sglang-oai-chat",
        "dataset_name": "image",
        "request_rate": float("inf"),
        "max_concurrency": None,
        "sharegpt_output_len": None,
        "random_input_len": 64,
        "random_output_len": 8,
        "server_info": {"model_path": "example/video-7b", "internal_states": [{"avg_spec_accept_length": None}]},
        "completed": len(REQUESTS),
        "total_output_tokens_retokenized": 12,
        "accept_length": accept_length,
        **(_requests() if is_detailed else {}),
    }


def sglang_lines() -> str:
    rest = [sglang_serving(is_detailed=False) | {"max_concurrency": most} for most in (4, 16)]
    return "".join(json.dumps(entry) + "\n" for entry in (sglang_serving(), *rest))


def sglang_batches() -> str:
    """A line of `sglang.bench_one_batch`, and one of `sglang.bench_one_batch_server`."""
    engine = {"run_name": "default", "batch_size": 1, "input_len": 256, "output_len": 8}
    engine |= {"prefill_latency": 0.034, "median_decode_latency": 0.008, "total_latency": 0.0911}
    server = {"run_name": "mine", "batch_size": 8, "input_len": 1024, "output_len": 16, "latency": 0.4011}
    server |= {"last_ttft": 0.2001, "last_gen_throughput": 400.5, "acc_length": 2.31, "cache_hit_rate": None}
    return "".join(json.dumps(line) + "\n" for line in (engine, server))


def aiperf_record(place: int, *, phase: str = "profiling", speculates: bool = False) -> dict[str, Any]:
    given, tokens, first, gaps = REQUESTS[place % len(REQUESTS)]
    latency = 1000 * (first + sum(gaps))
    start = 1_759_813_207_000_000_000 + place * 50_000_000
    found: dict[str, Any] = {
        "metadata": {
            "session_num": place,
            "conversation_id": f"scene-{place % len(REQUESTS)}",
            "turn_index": 0,
            "request_start_ns": start,
            "request_end_ns": start + round(latency * 1e6),
            "benchmark_phase": phase,
            "was_cancelled": False,
        },
        "metrics": {
            "input_sequence_length": {"value": given, "unit": "tokens"},
            "time_to_first_token": {"value": 1000 * first, "unit": "ms"},
            "request_latency": {"value": latency, "unit": "ms"},
            "inter_chunk_latency": {"value": [1000 * gap for gap in gaps], "unit": "ms"},
            "output_sequence_length": {"value": tokens, "unit": "tokens"},
            "a_metric_of_tomorrow": {"value": {"deep": [1, 2]}, "unit": "furlongs"},
        },
        "trace_data": {"trace_type": "aiohttp", "chunks": [[1, 2]] * 3},
        "error": None,
    }
    if speculates:
        found["spec_decode_acceptance"] = {
            "engine": "vllm",
            "acceptance_histogram": {"1": 1, "2": 1},
            "num_accepted_draft_tokens": 3,
            "num_draft_tokens": 6,
            "num_spec_steps": 2,
        }
    return found


def aiperf_failure() -> dict[str, Any]:
    found = aiperf_record(3)
    found["metadata"] |= {"was_cancelled": True, "request_start_ns": 1_759_813_208_000_000_000}
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
