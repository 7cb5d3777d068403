"""What is said of runs that were not made alike, and which figures can still be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cell_runs import Cell
from evprof.core.errors import UserError
from evprof.core.records import PowerRecord
from evprof.core.vocabulary.figures import EVERYTHING, FIGURES, METER
from evprof.metrics.comparison.comparability import CIRCUMSTANCES, Comparability, comparability
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.estimates.estimates import verdict
from evprof.metrics.estimates.observations import observe
from evprof.metrics.figures.stages import total_ms

H200 = {
    "evprof": "1.0",
    "device": "NVIDIA H200",
    "processor": "Intel Xeon 8480",
    "cpus": 16,
    "driver": "570.86",
    "cuda": "12.8",
    "torch": "2.11.0",
    "transformers": "5.17.0",
    "python": "3.12.3",
    "threads": 16,
    "engine_session": "aa",
    "gpu": {"clocks_mhz": 345, "power_limit_w": 700.0},
    "gpu_end": {"clocks_mhz": 1980, "power_limit_w": 700.0},
}
OURS = Cell(
    name="",
    is_imported=False,
    samples=3,
    prompt=600,
    kv_bytes=1 << 20,
    weights=1 << 30,
    environment=H200,
    model={"device": "cuda:0", "content": "blake2b:0123456789abcdef"},
)


def of(*cells: Cell, baseline: int = 0) -> Comparability:
    return comparability([cell.column(1 + 100 * place) for place, cell in enumerate(cells)], baseline)


def on(**facts: Any) -> Cell:
    """The same runs where these facts of the environment are others."""
    return OURS.with_(environment=H200 | facts)


def asked(column: Configuration, **sample: Any) -> Configuration:
    for run in column.runs:
        run.info.sample = replace(run.info.sample, **sample)
    return column


def names(found: Comparability) -> list[str]:
    return [difference.name for difference in found.differences]


def test_runs_made_alike_have_no_line() -> None:
    found = of(OURS, OURS, OURS)
    assert found.is_comparable
    assert found.sentence == ""
    assert set(found.comparable) == set(found.figures) >= {"total_ms", "kv_cache_bytes", "token_match"}
    found.require()


def test_another_machine_leaves_what_is_counted() -> None:
    found = of(OURS, on(device="NVIDIA A100", driver="550.1", gpu_end={"clocks_mhz": 1410, "power_limit_w": 400.0}))
    # Another GPU has other clocks and another limit: that goes without saying.
    assert names(found) == ["device", "driver"]
    assert found.sentence == (
        "The runs differ in device (NVIDIA H200 or NVIDIA A100) and driver (570.86 or 550.1); "
        "only answers, lengths and memory can be compared."
    )
    with pytest.raises(UserError, match="The runs differ in device") as refused:
        found.require()
    assert refused.value.exit_code == 1


@pytest.mark.parametrize(
    ("fact", "value", "name"),
    [
        ("torch", "2.13.0", "torch"),
        ("transformers", "5.23.0", "transformers"),
        ("driver", "580", "driver"),
        ("cuda", "13.0", "CUDA"),
        ("triton", "3.7.1", "Triton"),
        ("python", "3.13.1", "Python"),
        ("evprof", "2.0", "evprof"),
        ("cpus", 8, "processors"),
        ("processor", "AMD EPYC", "processor"),
        ("gpu_id", "ffff", "card"),
        ("gpu_end", {"clocks_mhz": 1500, "power_limit_w": 700.0}, "clocks"),
        ("gpu_end", {"clocks_mhz": 1980, "power_limit_w": 500.0}, "power limit"),
    ],
)
def test_one_fact_of_the_machine(fact: str, value: Any, name: str) -> None:
    base = on(triton="3.6.0", gpu_id="aaaa", gpu=None)
    found = of(base, base.with_(environment=base.environment | {fact: value}))
    assert names(found) == [name]
    assert "total_ms" not in found.comparable
    assert "output_sequence_length" in found.comparable


@pytest.mark.parametrize(
    "facts",
    [
        {"gpu_end": {"clocks_mhz": 1905, "power_limit_w": 700.0}},
        {"gpu": {"clocks_mhz": 1980, "power_limit_w": 699.9}},
        {"engine_session": "bb"},
        {"python": "3.12.9"},
        {"threads": 1},
        {"torch": None},
        {"gpu": "garbage", "gpu_end": [1], "cpus": [2], "driver": {"a": 1}},
    ],
)
def test_what_varies_within_a_machine_is_no_difference(facts: dict[str, Any]) -> None:
    """Also an idle GPU's clocks, threads of a run on a GPU, and what is not told or makes no sense."""
    assert of(OURS, on(**facts)).sentence == ""


def test_threads_count_among_runs_of_the_same_models_on_a_cpu() -> None:
    cpu = OURS.with_(model={"device": "cpu"})
    other = cpu.with_(environment=H200 | {"threads": 1})
    assert names(of(cpu, other)) == ["threads"]
    # A tiny model takes one thread on every machine.
    assert of(cpu, other.with_(model={"device": "cpu", "name": "tiny"})).is_comparable


def test_a_cpu_and_a_gpu_of_one_machine_are_a_setting() -> None:
    cpu = OURS.with_(
        model={"device": "cpu", "dtype": "float32"}, environment=H200 | {"device": "Intel Xeon 8480", "driver": None}
    )
    assert of(OURS, cpu).is_comparable


def test_arithmetic_is_a_setting_on_one_machine_and_auto_on_two() -> None:
    lower = {"dtype": "bfloat16", "device": "cuda:0"}
    assert of(OURS, OURS.with_(model=lower)).is_comparable
    found = of(OURS, on(device="NVIDIA A100").with_(model=lower))
    assert names(found) == ["device", "arithmetic of llava-hf/llava-1.5-7b-hf"]
    assert set(found.comparable) == {"input_sequence_length", "visual_tokens"}


def test_other_files_under_one_name() -> None:
    found = of(OURS, OURS.with_(model={"device": "cuda:0", "content": "blake2b:ffff"}))
    assert names(found) == ["files of llava-hf/llava-1.5-7b-hf"]
    assert found.comparable == ()
    assert found.sentence.endswith("; no figure can be compared.")
    # Of another name it is another model: that is what is compared. Sessions of before do not tell.
    for model in ({"name": "mine", "content": "blake2b:ffff"}, {}):
        assert of(OURS, OURS.with_(model={"device": "cuda:0"} | model)).is_comparable


def test_another_prompt_leaves_what_is_told_per_token() -> None:
    found = comparability([OURS.column(), asked(OURS.column(101), prompt="Describe the road.")])
    assert found.sentence == (
        "The runs differ in prompt (What? or Describe the road.); "
        "only vision, per token, decode step, rates, visual tokens and weights can be compared."
    )


def test_where_tokens_are_drafted_their_pace_hangs_on_the_prompt() -> None:
    drafting = OURS.with_(mode="speculative", drafts=OURS, rounds=((3, 2, 0), (3, 1, 0)))
    found = comparability([drafting.column(), asked(drafting.column(101), prompt="Describe the road.")])
    assert "decode_ms_per_token" in found.figures
    assert set(found.comparable).isdisjoint({"decode_ms_per_token", "draft_acceptance_rate"})
    elsewhere = of(drafting, drafting.with_(environment=H200 | {"device": "NVIDIA A100"}))
    assert {"draft_acceptance_rate", "mean_acceptance_length"} <= set(elsewhere.comparable)
    assert "decode_ms_per_token" not in elsewhere.comparable


def test_samples_are_told_by_content_and_else_by_name() -> None:
    def seen(number: int, **sample: Any) -> Configuration:
        return asked(OURS.column(number), **sample)

    one = {"name": "", "events_hash": "blake2b:aaaaaaaa", "video_hash": None}
    assert comparability([seen(1, **one), seen(9, **one | {"name": "copy", "video_hash": "x"})]).is_comparable
    assert names(comparability([seen(1, **one), seen(9, **one | {"events_hash": "b"})])) == ["sample"]
    assert names(comparability([seen(1, **one), seen(9, **one | {"start_us": 50_000})])) == ["sample"]
    assert names(comparability([seen(1, name="drive 1"), seen(9, name="drive 2")])) == ["sample"]


def test_energy_of_another_source_touches_energy_alone() -> None:
    def watched(number: int, energy_uj: int) -> Configuration:
        column = OURS.column(number)
        for run in column.runs:
            end_ns = run.info.end_ns or 0
            for t_ns in range(0, end_ns + 100_000_000, 100_000_000):
                counted = energy_uj + t_ns if energy_uj >= 0 else -1
                run.absorb(PowerRecord(run.run_id, t_ns, "cuda:0", counted, 300_000, 1980, 3201, 60, 0, 97, 60))
        return column

    found = comparability([watched(1, 5), watched(101, -1)])
    assert names(found) == ["energy source of cuda:0"]
    assert set(found.figures) - set(found.comparable) == {
        "energy_per_answer_j",
        "energy_per_token_j",
        "mean_power_w",
        "peak_power_w",
    }
    assert comparability([watched(1, 5), watched(101, 7)]).is_comparable


def test_imported_runs_do_not_tell_their_machine() -> None:
    imported = OURS.with_(is_imported=True, environment={}, model={})
    assert of(imported, imported).sentence == ""
    found = of(OURS, imported, imported.with_(name="old cell"))
    assert found.is_comparable
    assert found.unknown == (1, 2)
    assert found.sentence == "It is not known on which machine run 101 and old cell ran."
    found.require()


def mixed(on_a: Callable[[int], bool], scale: float, first: int) -> Configuration:
    """Six samples, each on machine A or on machine B, which takes ten times as long."""
    fast = OURS.with_(name="cell", samples=6, stages={"decode": 10 * scale}, environment=H200 | {"engine_session": "a"})
    slow = fast.with_(stages={"decode": 100 * scale}, environment=H200 | {"device": "NVIDIA T4", "engine_session": "b"})
    runs = zip(fast.runs(first), slow.runs(first), strict=True)
    return Configuration(tuple(pair[0] if on_a(place) else pair[1] for place, pair in enumerate(runs)))


def test_pairs_are_made_within_a_machine() -> None:
    """A suite that went on elsewhere: of the samples that another machine took for each side nothing is said."""
    before, after = mixed(lambda place: place < 4, 1.0, 1), mixed(lambda place: place < 3, 2.0, 101)
    found = verdict(observe(before.runs, total_ms), observe(after.runs, total_ms))
    assert found.ratio == pytest.approx(2.0)
    assert found.pairs == 5
    document = compare_document([before, after], before)
    assert document["pairs"][0]["samples"] == 5
    (part,) = (part for part in document["pairs"][0]["contributions"] if part["stage"] == "decode")
    assert part["delta_ms"] == pytest.approx((3 * 10 + 2 * 100) / 5, rel=0.02)
    assert document["comparability"]["is_comparable"]


def test_every_aspect_is_known_and_met() -> None:
    assert {circumstance.aspect for circumstance in CIRCUMSTANCES} == {*EVERYTHING, METER}
    told = {aspect for figure in FIGURES.values() for aspect in (*figure.depends_on, *figure.with_drafts)}
    assert told == {*EVERYTHING, METER}
