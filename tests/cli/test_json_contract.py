"""Every JSON document key by key: what is promised is there, of its kind, and means what it is said to mean.

The shapes below are written by hand from what readers of the documents were promised, never derived from the code.
"""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from evprof.cli import main
from evprof.cli.run import recorded_session
from evprof.cli.terminal.console import Console
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.run.requests import demo_requests


@dataclass(frozen=True)
class Maybe:
    """Null where it was not measured."""

    shape: Any


@dataclass(frozen=True)
class Each:
    """An object whose names are not promised, with values of one shape."""

    shape: Any


@dataclass(frozen=True)
class OneOf:
    """One of these words."""

    words: tuple[str, ...]


def one_of(words: str) -> OneOf:
    return OneOf(tuple(words.split()))


Number = (int, float)
KINDS: dict[str, Any] = {"int": int, "str": str, "bool": bool, "num": Number, "dict": dict, "list": list}


def kind_of(word: str) -> Any:
    """`int`, `[int]` for a list, `int?` where null is allowed."""
    if word.endswith("?"):
        return Maybe(kind_of(word[:-1]))
    return [kind_of(word[1:-1])] if word.startswith("[") else KINDS[word]


def keys(text: str, /, **parts: Any) -> dict[str, Any]:
    """An object: `name note str, repeat int` gives three keys; `parts` have shapes of their own."""
    entries = [entry.split() for entry in text.split(",")]
    return {name: kind_of(kind) for *names, kind in entries for name in names} | parts


ROLE = one_of("draft target")
TENSOR = keys("name dtype str, shape [int], bytes int")
CHILD = keys("name str, start_ms duration_ms num", inputs=[TENSOR], outputs=[TENSOR])
STAGE = CHILD | keys("covers [str]", name=one_of("load preprocess vision prefill decode"), children=[CHILD])
MODEL = keys(
    "name model_type dtype device str, parameters weight_bytes int, quantization str?",
    family=one_of("eventgpt llava video_llava llava_next_video"),
)
COST = keys("tokens kv_bytes int, vision_ms prefill_ms decode_ms num?")
VISUAL_COSTS = COST | keys(
    "first_token_share sensor_s num?, not_known [str]",
    shared=COST,
    frames=[COST | keys("frame int, label str, start_us end_us int?")],
)
ESTIMATE = keys("ms num")
ROOF = keys("stage str, share num?", figure=one_of("MFU MBU"))
POINT = keys("at num, run_ids [int]", total=Maybe(ESTIMATE), stages=Each(ESTIMATE), roof=[ROOF])
SLOPE = keys("stage verdict sentence str, ms_per_step num, ci95 [num]?, runs amounts fewest_runs int")
SWEEP = keys("model str, runs int", role=ROLE, axis=one_of("frames clip_s"), points=[POINT], slopes=[SLOPE])
KV_CACHE = keys(
    "measured_bytes formula_bytes stored_bytes reserved_bytes int?, per_layer_bytes [int]",
    layout=Maybe(keys("shape strides [int], dtype str, is_contiguous bool")),
    by_origin=keys(
        "system text visual generated draft_accepted draft_rolled_back int?, visual_per_frame [int]?",
    ),
)
ROUND = keys("start_ms draft_ms verify_ms rollback_ms num, drafted accepted int, drafted_ids [int], hidden bool")
SPECULATION = keys(
    "drafter str, rounds drafted accepted bonus emitted hidden_drafted hidden_accepted int, "
    "draft_acceptance_rate mean_acceptance_length num?, accepted_per_position [int]",
    per_round=[ROUND],
)
OF_MODEL = {"stages": [STAGE], "kv_cache": KV_CACHE, "visual_costs": Maybe(VISUAL_COSTS)}
ALTERNATIVE = keys("id int, piece str, probability num")
RUN = keys(
    "run_id group_id repeat int, name note str, error text str?, warmup cold profiled bool, "
    "unattributed_ms wall_ms num?, token_times_ms [num], token_ids [int], token_pieces [str]",
    role=ROLE,
    mode=one_of("side-by-side speculative parallel-prefill draft target"),
    status=one_of("running finished cancelled failed"),
    model=Maybe(MODEL),
    settings=keys(
        "max_new_tokens top_k seed int, ignore_eos bool, temperature top_p num, frames event_frames int?, "
        "prompt_template attention cache str?"
    ),
    sample=keys("events video dict?, prompt str"),
    setup=keys("import_ms weights_ms compile_ms num?, first_use bool"),
    metrics=keys(
        "time_to_first_token_ms inter_token_latency_ms prefill_throughput_tok_s decode_throughput_tok_s num?, "
        "input_sequence_length visual_tokens int?, output_sequence_length int"
    ),
    memory=keys("weights_bytes peak_allocated_bytes peak_reserved_bytes peak_rss_bytes int?", by_stage=Each(int)),
    draft=Maybe({"model": MODEL, **OF_MODEL}),
    speculation=Maybe(SPECULATION),
    token_origin=[one_of("target accepted bonus draft")],
    token_entropy_bits=Maybe([Maybe(Number)]),
    token_alternatives=Maybe([Maybe([ALTERNATIVE])]),
    **OF_MODEL,
)
BATCH = keys(
    "model role device dtype peak_of str, batch requests n positions new_tokens tokens cache_bytes int, "
    "before_ms prefill_ms decode_ms samples_per_s num, decode_tok_s num?, peak_bytes int?"
)
GPU = keys("clocks_mhz power_limit_w temperature_c num?, throttle_reasons [str]?, other_processes int?")
SESSION = keys(
    "schema_version int, evprof_version str",
    batches=[BATCH],
    marks=[keys("run_id int, at_ms length_ms num, note str")],
    environment=keys(
        "device torch transformers python float32_matmul str, threads int, sm_count gpu_memory_bytes int?, "
        "driver gpu_id compute_capability cudnn cublas triton str?, tf32 reduced_precision dict?",
        attention_backends=keys("order enabled [str]"),
        gpu=Maybe(GPU),
    ),
    runs=[RUN],
)
COMPARISON = keys(
    "schema_version baseline int",
    basis=one_of("end-to-end without-load model-only"),
    rows=[keys("metric unit str, values ratio [num?], ci95 [list?]?")],
    contributions=[keys("stage str, delta_ms num, share num?")],
    why=keys("sentence str", parts=[keys("stage str, delta_ms num, is_clear bool")]),
    generation=keys("token_count_ratio time_per_token_ratio product num?"),
    token_match=keys("definition str, matched compared int, rate num?"),
)
INSPECTED = keys(
    "schema_version int, path str, problems [str]",
    kind=one_of("events video manifest checkpoint session trace legacy"),
)
INSPECTED_AS = {
    "checkpoint": keys(
        "family model_type str, parameters tensors context_limit visual_tokens_per_frame int, "
        "missing surplus assumptions [str], dtype str?, bytes int?",
        architecture=keys("backbone vision_tower projector str, image_size vision_heads int"),
        text=keys("layers hidden heads kv_heads head_dim vocabulary int"),
        vision=keys("layers width patch patches kept int"),
        flops=keys("prefill decode_per_token vision_per_frame num, prefill_positions int"),
    ),
    "events": keys("format str, events width height duration_us t_min_us t_max_us int, positive_fraction num"),
    "video": keys("codec str, frames width height int, duration_ms gop_frames num"),
}


def differences(value: Any, shape: Any, where: str = "document") -> list[str]:
    """Everywhere that a value is not of the shape."""
    lines: list[str] = []
    is_right = True
    match shape:
        case Maybe(shape=inner):
            lines = [] if value is None else differences(value, inner, where)
        case OneOf(words=words):
            is_right = value in words
        case Each(shape=inner) if isinstance(value, dict):
            lines = [line for name, entry in value.items() for line in differences(entry, inner, f"{where}.{name}")]
        case [inner] if isinstance(value, list):
            lines = [line for i, entry in enumerate(value) for line in differences(entry, inner, f"{where}[{i}]")]
        case dict() if isinstance(value, dict):
            lines = [f"{where} has no '{name}'" for name in shape if name not in value]
            for name in shape.keys() & value.keys():
                lines += differences(value[name], shape[name], f"{where}.{name}")
        case type() | tuple():
            is_right = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
        case _:
            is_right = False
    return lines if is_right else [f"{where} is {value!r}"]


def test_the_comparison_of_shapes_finds_differences() -> None:
    shape = {"a": int, "b": Maybe([Number]), "c": one_of("x y")}
    assert differences({"a": 1, "b": [1, 2.5], "c": "x"}, shape) == []
    assert differences({"a": True, "b": None, "c": "x"}, shape) == ["document.a is True"]
    assert differences({"a": 1, "b": {}, "c": "x"}, shape) == ["document.b is {}"]
    assert sorted(differences({"a": 1, "b": [None], "c": "z"}, shape)) == ["document.b[0] is None", "document.c is 'z'"]
    assert differences({"a": 1, "b": None}, shape) == ["document has no 'c'"]


class Recorded:
    """Runs side by side and speculative ones, and a few commands on them, each document as it was printed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s.evprof"
        with recorded_session.RecordedSession(self.path, Console(is_quiet=True)) as session:
            for request in demo_requests():
                session.run(replace(request, settings=GenerationSettings(), repeat=1, warmup=None))
        self.document = self.ask("show", self.path)

    def ask(self, *words: object) -> Any:
        """The document that a command prints, which must be all of standard output."""
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            code = main([*[str(word) for word in words], "--json"])
        assert code == 0, errors.getvalue()
        return json.loads(output.getvalue(), parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The bundled pair on the bundled sample, really run."""
    return Recorded(tmp_path_factory.mktemp("contract"))


def runs_of(recorded: Recorded) -> list[dict[str, Any]]:
    return list(recorded.document["runs"])


def test_a_session_has_every_key(recorded) -> None:
    assert differences(recorded.document, SESSION) == []
    assert recorded.document["schema_version"] == 1


def test_costs_add_the_sweeps(recorded, tmp_path) -> None:
    document = recorded.ask("show", recorded.path, "--costs")
    assert document == recorded.document | {"scaling": []}, "one number of frames"
    path = tmp_path / "sweep.evprof"
    for frames in (2, 4):
        recorded.ask("run", "--mode", "target", "--frames", frames, "--max-new-tokens", 3, "-o", path)
    document = recorded.ask("show", path, "--costs")
    (sweep,) = document["scaling"]
    assert differences(document, SESSION | {"scaling": [SWEEP]}) == []
    assert [point["at"] for point in sweep["points"]] == [2, 4]
    slopes = {slope["stage"]: slope for slope in sweep["slopes"]}
    assert slopes["prefill"]["verdict"] == "too few runs"
    assert "too few runs" in slopes["prefill"]["sentence"]


def test_visual_costs_add_up(recorded) -> None:
    for run in runs_of(recorded):
        costs = run["visual_costs"]
        parts = [costs["shared"], *costs["frames"]]
        assert sum(part["tokens"] for part in parts) == costs["tokens"] == run["metrics"]["visual_tokens"]
        assert sum(part["kv_bytes"] for part in parts) == costs["kv_bytes"] == run["kv_cache"]["by_origin"]["visual"]
        stages = {stage["name"]: stage["duration_ms"] for stage in run["stages"]}
        assert costs["vision_ms"] == pytest.approx(stages["vision"])
        assert costs["prefill_ms"] < stages["prefill"]
        assert (costs["decode_ms"] is None) == (run["speculation"] is not None)


def test_runs_are_numbered_and_grouped(recorded) -> None:
    runs = runs_of(recorded)
    assert [run["run_id"] for run in runs] == [1, 2, 3, 4, 5]
    assert [run["warmup"] for run in runs] == [True, True, False, False, False]
    assert len({run["group_id"] for run in runs[:4]}) == 1
    assert runs[4]["group_id"] != runs[3]["group_id"]
    assert {run["repeat"] for run in runs} == {0}


def test_the_zero_the_wall_and_what_is_left_over(recorded) -> None:
    for run in runs_of(recorded):
        everything = [*run["stages"], *(run["draft"] or {"stages": []})["stages"]]
        assert min(stage["start_ms"] for stage in everything) == 0
        assert run["unattributed_ms"] == pytest.approx(run["wall_ms"] - union_ms(everything), abs=1e-3)
        assert all(stage["covers"] == [stage["name"]] for stage in everything)
        for stage in everything:
            end_ms = stage["start_ms"] + stage["duration_ms"]
            assert end_ms <= run["wall_ms"] + 1e-3
            for child in stage["children"]:
                assert stage["start_ms"] <= child["start_ms"]
                assert child["start_ms"] + child["duration_ms"] <= end_ms + 1e-3


def union_ms(stages: list[dict[str, Any]]) -> float:
    """Length of the union of intervals."""
    covered, reached = 0.0, 0.0
    for start, end in sorted((stage["start_ms"], stage["start_ms"] + stage["duration_ms"]) for stage in stages):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def test_metrics_follow_their_definitions(recorded) -> None:
    for run in runs_of(recorded):
        metrics, times, count = run["metrics"], run["token_times_ms"], len(run["token_ids"])
        stages = {stage["name"]: stage["duration_ms"] for stage in run["stages"]}
        assert metrics["output_sequence_length"] == count == len(times) == len(run["token_pieces"])
        assert metrics["time_to_first_token_ms"] == times[0]
        assert metrics["inter_token_latency_ms"] == pytest.approx((times[-1] - times[0]) / (count - 1))
        assert metrics["decode_throughput_tok_s"] == pytest.approx(1000 * (count - 1) / stages["decode"])
        assert metrics["prefill_throughput_tok_s"] == pytest.approx(
            1000 * metrics["input_sequence_length"] / stages["prefill"]
        )


def test_the_caches_formula_from_the_checkpoints_own_file(recorded) -> None:
    from engines import bundled_folder

    for run in runs_of(recorded):
        folder = bundled_folder(run["model"]["name"])
        assert folder is not None
        config = json.loads((folder / "config.json").read_text())
        text = config.get("text_config", config)
        heads = text["num_attention_heads"]
        positions = run["metrics"]["input_sequence_length"] + run["metrics"]["output_sequence_length"] - 1
        element_bytes = {"float32": 4, "bfloat16": 2, "float16": 2}[run["model"]["dtype"]]
        expected = 2 * text["num_hidden_layers"] * text.get("num_key_value_heads", heads)
        expected *= positions * (text["hidden_size"] // heads) * element_bytes
        assert run["kv_cache"]["formula_bytes"] == expected == run["kv_cache"]["measured_bytes"]


def test_what_was_not_measured_is_null(recorded) -> None:
    """On a CPU no allocator and no GPU; anywhere nothing compiled, and nothing loaded for models that were warm."""
    for run in runs_of(recorded):
        if run["model"]["device"] == "cpu":
            assert recorded.document["environment"]["gpu"] is None
            assert run["memory"]["peak_allocated_bytes"] is None
            assert run["memory"]["peak_reserved_bytes"] is None
            assert run["memory"]["peak_rss_bytes"] > 0
        assert run["setup"]["compile_ms"] is None
        assert run["error"] is None
    assert runs_of(recorded)[0]["setup"]["weights_ms"] > 0
    unmeasured = {"import_ms": None, "weights_ms": None, "compile_ms": None, "first_use": False}
    assert runs_of(recorded)[4]["setup"] == unmeasured


def test_the_text_leaves_out_the_end_that_the_ids_include(recorded) -> None:
    for run in runs_of(recorded):
        if len(run["token_ids"]) < run["settings"]["max_new_tokens"]:
            assert run["token_pieces"][-1] == ""
        assert run["text"] == "".join(run["token_pieces"]).strip()
        assert "</s>" not in run["text"]


def test_origins_and_rounds(recorded) -> None:
    draft, target, speculative = runs_of(recorded)[2:]
    for run in (draft, target, speculative):
        # Greedily chosen: what came is what was likeliest.
        likeliest = [listed[0]["id"] for listed in run["token_alternatives"]]
        assert likeliest == run["token_ids"]
        assert {len(listed) for listed in run["token_alternatives"]} == {5}
        assert all(bits >= 0 for bits in run["token_entropy_bits"])
    for run in (draft, target):
        assert set(run["token_origin"]) == {"target"}
        assert run["draft"] is run["speculation"] is None
    figures = speculative["speculation"]
    origins = speculative["token_origin"]
    assert origins[0] == "target"
    assert set(origins[1:]) <= {"accepted", "bonus"}
    assert origins.count("bonus") == figures["bonus"]
    assert figures["rounds"] == len(figures["per_round"])
    assert figures["rounds"] - figures["bonus"] in (0, 1)
    assert [stage["name"] for stage in speculative["draft"]["stages"]] == ["load", "preprocess", "vision", "prefill"]
    decode = speculative["stages"][-1]
    for entry in figures["per_round"]:
        assert entry["start_ms"] >= decode["start_ms"]
        assert len(entry["drafted_ids"]) == entry["drafted"] >= entry["accepted"]
        assert entry["hidden"] is False


@pytest.mark.parametrize("basis", ["end-to-end", "without-load", "model-only"])
def test_a_comparison_has_every_key(recorded, basis) -> None:
    document = recorded.ask("compare", recorded.path, "--basis", basis)
    assert differences(document, COMPARISON) == []
    assert (document["schema_version"], document["basis"], document["baseline"]) == (1, basis, 3)
    assert document["token_match"]["definition"] == "same id at the same position"
    generation = document["generation"]
    assert generation["product"] == pytest.approx(generation["token_count_ratio"] * generation["time_per_token_ratio"])
    for row in document["rows"]:
        assert len(row["values"]) == len(row["ratio"]) == 3
        assert row["ci95"] is None or len(row["ci95"]) == 3


def test_inspection_has_every_key(recorded) -> None:
    from evprof.loaders.bundled import bundled_sample

    sample = bundled_sample()
    asked = {
        "events": sample.events_path,
        "video": sample.video_path,
        "checkpoint": "evprof-tiny-eventgpt",
        "session": recorded.path,
    }
    for kind, path in asked.items():
        document = recorded.ask("inspect", path)
        assert document["kind"] == kind
        assert differences(document, INSPECTED | INSPECTED_AS.get(kind, {})) == []
        assert document["problems"] == []
    shape = recorded.ask("inspect", "random:7b-eventgpt")
    assert differences(shape, INSPECTED | INSPECTED_AS["checkpoint"]) == []
    assert shape["parameters"] > 6_000_000_000


def test_a_failed_run_has_every_key_too(recorded, tmp_path, monkeypatch) -> None:
    from scripted_engine import ScriptedEngine
    from scripted_pair import Script

    class Failing(ScriptedEngine):
        def run(self, request, sink, stop) -> None:
            class Sink:
                append = staticmethod(sink.append)

                @staticmethod
                def post(message: Any) -> None:
                    if "lengths" in getattr(message, "facts", {}):
                        raise RuntimeError("a defect between two stages")
                    sink.post(message)

            super().run(request, Sink(), stop)

    monkeypatch.setattr(recorded_session, "make_engine", lambda: Failing(Script(), speed=50))
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = main(["run", "--mode", "draft", "--json", "-o", str(tmp_path / "s.evprof")])
    assert code == 1
    document = json.loads(output.getvalue())
    # A scripted engine has no libraries to tell of.
    environment = {name: SESSION["environment"][name] for name in ("device", "driver", "gpu")}
    assert differences(document, SESSION | {"environment": environment}) == []
    (run,) = document["runs"]
    assert run["status"] == "failed"
    assert [stage["name"] for stage in run["stages"]] == ["load", "preprocess"]
    assert run["metrics"]["time_to_first_token_ms"] is None
    assert run["metrics"]["input_sequence_length"] is None
    assert run["kv_cache"]["measured_bytes"] is None
