"""vLLM's serving benchmark: `vllm bench serve --save-result`, with `--save-detailed` the lists of single requests.

Shape and definitions: vllm/benchmarks/serve.py and lib/endpoint_request_func.py of https://github.com/vllm-project/vllm.
With `--append-result` a file holds several, a line each. Without `--save-detailed` newer releases still list latencies
and the client's queue times.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from evprof.loaders.legacy.checks import finite, ratio
from evprof.loaders.legacy.json_rows import DOCUMENTS
from evprof.loaders.legacy.reading import Preview
from evprof.loaders.legacy.servers.serving import ServingReader, traffic

_KEYS = frozenset({"model_id", "completed", "request_throughput"})


class VllmServing(ServingReader):
    name = "vLLM serving benchmark"
    looks_for = "model_id with completed and request_throughput (vllm bench serve)"
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

    @staticmethod
    def recognises(preview: Preview) -> bool:
        """By its keys, in any of the first benchmarks."""
        return any(VllmServing._is_benchmark(head) for head in preview.objects(DOCUMENTS))

    @staticmethod
    def _is_benchmark(head: Mapping[str, Any]) -> bool:
        return head.keys() >= _KEYS

    @staticmethod
    def _label(head: Mapping[str, Any]) -> str:
        # Without a name of its own a benchmark is labelled by its backend.
        named = head.get("label") if head.get("label") != head.get("backend") else None
        parts = (str(head["model_id"])[:120], str(named)[:60] if named else "vLLM", traffic(head))
        return ", ".join(parts)

    @staticmethod
    def _model_name(head: Mapping[str, Any]) -> object:
        return head.get("model_id")

    @staticmethod
    def _started_at(head: Mapping[str, Any]) -> str | None:
        try:
            return datetime.strptime(str(head.get("date")), "%Y%m%d-%H%M%S").isoformat()
        except ValueError:
            return None

    @staticmethod
    def _more_told(head: Mapping[str, Any]) -> dict[str, float]:
        listed = head.get("spec_decode_per_position_acceptance_rates")
        rates = map(finite, listed[:64]) if isinstance(listed, list) else ()
        return {
            f"spec_decode_per_position_acceptance_rates.{place}": rate
            for place, rate in enumerate(rates, start=1)
            if rate is not None
        }

    @staticmethod
    def _computed(head: Mapping[str, Any]) -> dict[str, float | None]:
        accepted = head.get("spec_decode_accepted_tokens")
        share = ratio(accepted, head.get("spec_decode_draft_tokens"))
        each = ratio(accepted, head.get("spec_decode_num_drafts"))
        return ServingReader._computed(head) | {
            # The file gives its share of accepted tokens in percent.
            "spec_decode_acceptance_rate": None if share is None else 100 * share,
            "spec_decode_acceptance_length": None if each is None else 1 + each,
        }

    @staticmethod
    def _speculation(head: Mapping[str, Any]) -> dict[str, float]:
        names = {
            "spec_decode_draft_tokens": "drafted_tokens",
            "spec_decode_accepted_tokens": "accepted_tokens",
            "spec_decode_num_drafts": "verified_rounds",
        }
        found = {name: value for key, name in names.items() if (value := finite(head.get(key))) is not None}
        is_whole = len(found) == len(names) and 0 <= found["accepted_tokens"] <= found["drafted_tokens"]
        return found if is_whole and found["verified_rounds"] > 0 else {}
