"""The JSON of a run: keys as promised, numbers as built, null where nothing was measured."""

from __future__ import annotations

import json

import evprof
from evprof.core.run_info import SetupFacts
from evprof.metrics.document import run_document, session_document


def names(text: str) -> list[str]:
    return text.split()


RUN_KEYS = set(
    names(
        "run_id group_id name note repeat role mode status error warmup profiled model settings sample setup stages "
        "unattributed_ms "
        "wall_ms token_times_ms metrics memory kv_cache draft speculation text token_ids token_pieces token_origin"
    )
)


def test_keys_are_the_contract(plain_run) -> None:
    document = run_document(plain_run)
    assert set(document) >= RUN_KEYS
    later = {"turn", "started_at", "warnings", "trace_path", "cell", "imported", "loading"}
    assert set(document) - RUN_KEYS == later | {
        *("cold", "engine_session", "baseline"),
        *(
            "accuracy",
            "energy",
            "throttled",
            "throttling",
            "clocks",
            "snapshot_path",
            "visual_costs",
        ),
        *("token_alternatives", "token_entropy_bits"),
    }
    assert list(document["model"]) == (
        names("name family model_type parameters weight_bytes dtype device quantization content")
    )
    assert set(document["settings"]) == set(
        names(
            "max_new_tokens ignore_eos temperature top_p top_k seed frames event_frames prompt_template attention "
            "cache step vision_pass"
        )
    )
    assert set(document["metrics"]) == set(
        names(
            "time_to_first_token_ms inter_token_latency_ms input_sequence_length output_sequence_length visual_tokens "
            "prefill_throughput_tok_s decode_throughput_tok_s"
        )
    )
    assert set(document["memory"]) == set(
        names("weights_bytes peak_allocated_bytes peak_reserved_bytes peak_rss_bytes by_stage measuring_ms")
    )
    assert set(document["setup"]) == {"import_ms", "weights_ms", "compile_ms", "first_use"}
    assert set(document["kv_cache"]) == set(
        names("measured_bytes formula_bytes stored_bytes reserved_bytes per_layer_bytes layout by_origin")
    )
    json.dumps(document, allow_nan=False)


def test_a_plain_run(plain_run) -> None:
    plain_run.info.setup["target"] = SetupFacts(weights_ms=12.0)
    document = run_document(plain_run)
    assert [stage["name"] for stage in document["stages"]] == ["load", "preprocess", "vision", "prefill", "decode"]
    vision = document["stages"][2]
    assert vision["covers"] == ["vision"]
    assert (vision["start_ms"], vision["duration_ms"]) == (30, 30)
    assert vision["inputs"] == [{"name": "pixel_values", "shape": [8, 3, 64, 64], "dtype": "float32", "bytes": 393216}]
    assert [child["name"] for child in vision["children"]] == ["tower", "projector"]
    assert document["unattributed_ms"] == 5
    assert document["wall_ms"] == 180
    assert document["setup"] == {"import_ms": None, "weights_ms": 12.0, "compile_ms": None, "first_use": False}
    assert document["draft"] is None
    assert document["speculation"] is None
    assert document["sample"]["video"] == {"path": "a.mp4", "offset_ms": 0.0}
    assert document["sample"]["events"] is None
    assert document["token_ids"] == [7, 8, 9, 2]
    assert document["text"] == "t7 t8 t9"
    assert document["kv_cache"]["measured_bytes"] == document["kv_cache"]["formula_bytes"]


def test_a_speculative_run(speculative_run) -> None:
    document = run_document(speculative_run)
    assert document["model"]["name"] == "tiny"
    assert document["draft"]["model"]["name"] == "drafter"
    assert [stage["name"] for stage in document["draft"]["stages"]] == ["load", "prefill"]
    assert [stage["name"] for stage in document["stages"]] == ["load", "prefill", "decode"]
    found = document["speculation"]
    assert found["drafter"] == "drafter"
    assert found["emitted"] == found["accepted"] + found["bonus"] == len(document["token_ids"]) - 1
    assert found["per_round"][0]["drafted_ids"] == [2, 3, 4]
    assert (found["per_round"][0]["start_ms"], found["per_round"][0]["draft_ms"]) == (80, 5)
    assert found["accepted_per_position"] == [3, 2, 1]
    assert document["token_origin"].count("accepted") == found["accepted"]
    assert document["token_origin"].count("bonus") == found["bonus"]
    assert "rejected" not in document["token_origin"]
    assert document["settings"]["gamma"] == 3


def test_a_run_that_just_began(script) -> None:
    document = run_document(script().begin(models={}, lengths={}, setup={}, start_ns=None).log())
    assert document["status"] == "running"
    assert document["model"] is document["wall_ms"] is document["unattributed_ms"] is None
    assert document["kv_cache"]["formula_bytes"] is None
    assert document["metrics"]["time_to_first_token_ms"] is None
    assert document["stages"] == document["token_ids"] == []


def test_session_document(plain_run, speculative_run) -> None:
    speculative_run.info.environment = {"device": "cpu"}
    document = session_document([plain_run, speculative_run])
    assert document["schema_version"] == 1
    assert document["evprof_version"] == evprof.__version__
    assert document["environment"] == {"device": "cpu"}
    assert [run["run_id"] for run in document["runs"]] == [1, 2]
