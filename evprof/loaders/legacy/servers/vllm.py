"""vLLM's serving benchmark: `vllm bench serve --save-result`, with `--save-detailed` the lists of single requests.

Shape and definitions: vllm/benchmarks/serve.py and lib/endpoint_request_func.py of https://github.com/vllm-project/vllm.
With `--append-result` a file holds several, a line each. Without `--save-detailed` newer releases still list latencies
and the client's queue times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from evprof.loaders.legacy.servers.serving import ServingReader, traffic


class VllmServing(ServingReader):
    name = "vLLM serving benchmark"
    looks_for = "model_id with completed and request_throughput (vllm bench serve)"
    keys = frozenset({"model_id", "completed", "request_throughput"})
    model_keys = ("model_id",)
    settings = (
        *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate"),
        *("burstiness", "max_concurrency", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
    )
    rows: ClassVar = {
        "completed": ("one", "sum"),
        "total_input_tokens": ("input", "sum"),
        "total_output_tokens": ("output", "sum"),
        **{f"mean_{name}_ms": (f"{name}_ms", "avg") for name in ("ttft", "tpot", "e2el")},
        **{f"std_{name}_ms": (f"{name}_ms", "std") for name in ("ttft", "tpot", "e2el")},
    }

    def _label(self, head: Mapping[str, Any]) -> str:
        # Without a name of its own a benchmark is labelled by its backend.
        named = head.get("label") if head.get("label") != head.get("backend") else None
        parts = (str(head["model_id"])[:120], str(named)[:60] if named else "vLLM", traffic(head))
        return ", ".join(parts)
