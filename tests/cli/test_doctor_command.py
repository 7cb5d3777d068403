"""`evprof doctor` tells what is broken and never breaks itself."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from evprof.cli.doctor import command, examination
from evprof.cli.terminal import program
from evprof.core.installation import EXTRAS
from evprof.run.meters import samplers

FACTS = {
    "engine": {"device": "cpu", "torch": "2"},
    "window": {"qt": "6", "platform": "offscreen", "pyqtgraph": "0"},
    "quantization": {"bitsandbytes": True},
    "decoders": {"pyav": "14", "codecs": {"h264": True, "av1": False}},
}


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Answers of `_examine`; an int is an exit code, with a last line of errors."""
    answers: dict[str, object] = dict(FACTS)

    def ask(part):
        answer = answers[part]
        if isinstance(answer, int):
            return subprocess.CompletedProcess([], answer, "", "Traceback\nImportError: libEGL.so.1 is missing\n")
        if isinstance(answer, Exception):
            raise answer
        return subprocess.CompletedProcess([], 0, json.dumps(answer), "")

    monkeypatch.setattr(examination, "ask", ask)
    monkeypatch.setattr(program, "missing_display", lambda: "")
    monkeypatch.setattr(command, "_gpu_facts", lambda _: None)
    return answers


def test_facts_and_problems(evprof, examined) -> None:
    document = evprof("doctor", "--json").document
    assert document["engine"] == FACTS["engine"]
    assert document["window"] == {"display": True, "libraries": FACTS["window"]}
    (problem,) = document["problems"]
    assert problem == {"problem": "These video codecs cannot be read: av1", "fix": "pip install --upgrade av"}


def test_a_broken_part_is_a_problem_with_its_reason(evprof, examined) -> None:
    examined["window"] = -11
    examined["engine"] = subprocess.TimeoutExpired("x", 1)
    found = evprof("doctor")
    assert found.code == 0
    assert "The examination of the window failed: ImportError: libEGL.so.1 is missing" in found.output
    assert "apt install libegl1" in found.output
    assert "The examination of the engine failed" in found.output


def test_a_missing_display_is_a_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(program, "missing_display", lambda: "this machine has no display.")
    document = evprof("doctor", "--json").document
    assert not document["window"]["display"]
    assert "No window can open: this machine has no display." in [one["problem"] for one in document["problems"]]


def test_a_gpu_that_torch_does_not_use(evprof, examined, monkeypatch) -> None:
    gpu = {"name": "NVIDIA H200", "driver": "550.54", "memory_bytes": 1, "free_bytes": 1}
    monkeypatch.setattr(command, "_gpu_facts", lambda _: gpu)
    complaint = "The NVIDIA driver on your system is too old (found version 12040)."
    examined["engine"] = {"torch": "2.13.0+cpu", "cuda": None, "gpu_warnings": []}
    first = evprof("doctor", "--json").document["problems"][-1]
    assert first["problem"] == "NVIDIA H200 is not used: torch 2.13.0+cpu is built for CPUs alone."
    assert "torch 2.13.0 for CUDA" in first["fix"]
    examined["engine"] = {"torch": "2.13.0", "cuda": "13.0", "gpu_warnings": [complaint]}
    document = evprof("doctor", "--json").document
    assert document["engine"] == {"torch": "2.13.0", "cuda": "13.0"}
    assert document["problems"][-1]["problem"] == complaint
    assert "driver 550.54" in document["problems"][-1]["fix"]


@pytest.mark.parametrize(
    ("environment", "system", "is_missing"),
    [
        ({}, "linux", True),
        ({"DISPLAY": ":0"}, "linux", False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", False),
        ({"DISPLAY": ":0", "QT_QPA_PLATFORM": "offscreen:x"}, "linux", True),
        ({"QT_QPA_PLATFORM": "linuxfb"}, "linux", False),
        ({}, "darwin", False),
    ],
)
def test_where_a_window_may_open(environment, system, is_missing) -> None:
    assert bool(program.missing_display(environment, system)) == is_missing


def test_every_package_that_evprof_needs_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split("[<>=]", line)[0].lower().replace("_", "-") for line in project["dependencies"]}
    assert needed == {name.lower().replace("_", "-") for name in command.PACKAGES}


def test_every_extra_for_people_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for extra, names in EXTRAS.items():
        assert {re.split("[<>=;]", line)[0].strip() for line in extras[extra]} == set(names)


def test_a_missing_package_is_named(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(command, "PACKAGES", ("torch", "no-such-package"))
    document = evprof("doctor", "--json").document
    assert document["packages"]["no-such-package"] is None
    assert {
        "problem": "The package no-such-package is not installed.",
        "fix": "pip install no-such-package",
    } in document["problems"]


def test_optional_libraries_are_told_and_are_no_problem(evprof, examined, monkeypatch) -> None:
    monkeypatch.setattr(command, "EXTRAS", {"quant": ("numpy", "no-such-library")})
    document = evprof("doctor", "--json").document
    assert list(document["optional"]) == ["numpy", "no-such-library"]
    assert document["optional"]["numpy"][0].isdigit()
    assert document["optional"]["no-such-library"] is None
    assert len(document["problems"]) == 1


def test_examining_for_real(evprof) -> None:
    found = evprof("_examine", "decoders")
    assert found.code == 0
    assert json.loads(found.output)["codecs"]["h264"] is True
    assert json.loads(found.output)["bundled_sample"] == {"frames": 8, "events": 22_565}


def test_a_bundled_model_answers(evprof, warm_engine, monkeypatch) -> None:
    monkeypatch.setattr("evprof.cli.run.recorded_session.make_engine", lambda: warm_engine)
    monkeypatch.setattr(warm_engine, "close", lambda: None)
    found = json.loads(evprof("_examine", "engine").output)
    assert "street" in found["answer"]
    assert found["gpu_architectures"] == importlib.import_module("torch").cuda.get_arch_list()
    assert isinstance(found["gpu_warnings"], list)


def test_doctor_says_who_may_read_the_processors_counters(tmp_path, monkeypatch) -> None:
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "name").write_text("package-0\n")
    monkeypatch.setattr(samplers, "FOLDER", tmp_path)
    problems: list[examination.Problem] = []
    assert not [name for name in command.energy_devices(problems) if name.startswith("cpu")]
    assert problems == [
        examination.Problem(
            f"The processor's energy is not measured: only root may read {zone}/energy_uj.",
            f"until the next start: sudo chmod a+r {zone}/energy_uj",
        )
    ]
