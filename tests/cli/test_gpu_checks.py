"""`evprof doctor` holds the driver, torch's build and the cards against each other, and says what to do."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from evprof.cli.doctor import gpu_checks
from evprof.cli.doctor.gpu_checks import Card, Driver, TorchBuild, cuda_packages, gpu_problems, nvidia_driver, runs_on
from evprof.cli.doctor.machine import check_gpus
from evprof.cli.doctor.problem import Problem

CPU = TorchBuild("2.13.0+cpu", None)
CUDA = TorchBuild("2.13.0", "13.0", ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"))
H200 = Card("NVIDIA H200", (9, 0))
NEW = Driver("580.95.05", (13, 0), (H200,))
OLD = Driver("550.54", (12, 4), (H200,))


def test_all_is_well() -> None:
    assert gpu_problems(CUDA, NEW, ["nvidia-cublas", "nvidia-ml-py", "torch"]) == []
    assert gpu_problems(CPU, None, ["nvidia-ml-py", "torch"]) == []
    assert gpu_problems(None, NEW, []) == []
    assert gpu_problems(CUDA, None, ["nvidia-cublas"]) == []


def test_a_driver_too_old() -> None:
    ((problem, fix),) = gpu_problems(CUDA, OLD, [])
    assert problem == (
        "The NVIDIA driver 550.54 is too old: it runs CUDA 12.4 at most, and torch 2.13.0 is built for CUDA 13.0."
    )
    assert fix == "install the driver 580.65 or later, or a torch built for CUDA 12.4"
    assert gpu_problems(TorchBuild("2.9.0", "12.8", ("sm_90",)), OLD, []) == []
    assert gpu_problems(CUDA, Driver("550.54", None, (H200,)), []) == []


def test_a_torch_for_cpus_beside_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ((problem, fix),) = gpu_problems(CPU, NEW, [])
    assert problem == "NVIDIA H200 is not used: torch 2.13.0+cpu is built for CPUs alone."
    assert "evprof cuda install" in fix
    assert "pip install --force-reinstall torch" in fix
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    ((_, fix),) = gpu_problems(CPU, NEW, [])
    assert fix.startswith("evprof cuda install FOLDER")
    assert "pip" not in fix


def test_a_torch_for_cpus_beside_orphaned_packages() -> None:
    names = [
        "nvidia_cublas",
        "nvidia-cudnn-cu13",
        "nvidia.nccl-cu13",
        "cuda-toolkit",
        "nvidia-ml-py",
        "numpy",
        "cudatext",
    ]
    ((problem, fix),) = gpu_problems(CPU, None, names)
    assert problem == (
        "4 packages of CUDA lie beside a torch for CPUs, which does not use them: cuda-toolkit, nvidia-cublas, "
        "nvidia-cudnn-cu13, …."
    )
    assert fix == "pip uninstall cuda-toolkit nvidia-cublas nvidia-cudnn-cu13 nvidia-nccl-cu13"
    assert len(gpu_problems(CPU, NEW, names)) == 2
    assert cuda_packages(["nvidia-ml-py", "torch", "cuda"]) == []


def test_a_generation_that_torch_has_no_code_for() -> None:
    volta = Card("Tesla V100", (7, 0))
    ((problem, fix),) = gpu_problems(CUDA, Driver("580.95.05", (13, 0), (H200, volta)), [])
    assert problem == (
        "torch 2.13.0 has no code for Tesla V100, whose generation is 70; it has code for 75, 80, 86, 90, 100, 120."
    )
    assert "--device cpu" in fix
    assert "an earlier one may do" in fix
    ((_, fix),) = gpu_problems(TorchBuild("2", "12.1", ("sm_80",)), NEW, [])
    assert "earlier" not in fix
    assert gpu_problems(TorchBuild("2", "13.0"), Driver("580", (13, 0), (volta,)), []) == []
    assert gpu_problems(CUDA, Driver("580", (13, 0), (Card("withheld"),)), []) == []


@pytest.mark.parametrize(
    ("architectures", "capability", "runs"),
    [
        (["sm_80"], (8, 0), True),
        (["sm_80"], (8, 9), True),
        (["sm_86"], (8, 0), False),
        (["sm_80"], (9, 0), False),
        (["compute_80"], (12, 0), True),
        (["compute_90"], (8, 0), False),
        (["sm_90a"], (9, 0), True),
        (["sm_100a"], (10, 3), False),
        (["sm_100f"], (10, 3), True),
        (["sm_120"], (12, 1), True),
        ([], (9, 0), False),
    ],
)
def test_whose_code_runs_where(architectures, capability, runs) -> None:
    assert runs_on(architectures, capability) == runs


class Nvml(SimpleNamespace):
    """What pynvml gives on a machine with two cards, one of which withholds its generation."""

    class NVMLError(Exception):
        """As NVML raises it."""

    def nvmlInit(self) -> None:
        """Works."""

    def nvmlDeviceGetCount(self) -> int:
        """Two."""
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        """Its number."""
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        """Of a card."""
        return f"card {handle}"

    def nvmlSystemGetDriverVersion(self) -> str:
        """As text."""
        return "550.54"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        """12.4 as NVML writes it."""
        return 12040

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:
        """Of the first card."""
        if handle:
            raise self.NVMLError
        return 9, 0


def test_what_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    assert nvidia_driver() == Driver("550.54", (12, 4), (Card("card 0", (9, 0)), Card("card 1")))
    monkeypatch.setattr(Nvml, "nvmlInit", lambda _: 1 / 0)
    assert nvidia_driver() is None


def test_doctor_tells(evprof, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "nvidia_driver", lambda: OLD)
    engine = {"torch": "2.13.0", "cuda": "13.0", "gpu_architectures": ["sm_90"]}
    problems: list[Problem] = []
    check_gpus(engine, problems)
    assert [problem.problem.split(":")[0] for problem in problems] == ["The NVIDIA driver 550.54 is too old"]
