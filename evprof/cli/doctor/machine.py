"""The GPU and the energy meters, asked without loading torch."""

from __future__ import annotations

from typing import Any

from evprof.cli.doctor.problem import Problem


def gpu_facts(problems: list[Problem]) -> dict[str, Any] | None:
    """The first NVIDIA GPU as NVML describes it; None without one."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # noqa: BLE001 - no driver is no problem: the CPU does the work
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        return {
            "name": str(pynvml.nvmlDeviceGetName(handle)),
            "driver": str(pynvml.nvmlSystemGetDriverVersion()),
            "memory_bytes": int(memory.total),
            "free_bytes": int(memory.free),
        }
    except pynvml.NVMLError as error:
        problems.append(
            Problem(f"The NVIDIA driver does not answer: {error}", "restart the machine or mend the driver")
        )
        return None


def check_gpus(engine: dict[str, Any] | None, problems: list[Problem]) -> None:
    """Holds the driver, torch's build and the cards against each other; `engine` as it described itself."""
    from importlib import metadata

    from evprof.cli.doctor.gpu_checks import TorchBuild, gpu_problems, nvidia_driver

    build = TorchBuild.of(engine) if engine else None
    packages = [found.name for found in metadata.distributions() if found.name]
    problems += [Problem(*found) for found in gpu_problems(build, nvidia_driver(), packages)]


def energy_devices(problems: list[Problem]) -> list[str]:
    """The devices whose energy or power is sampled during runs."""
    from evprof.run.meters.power_sampler import nvml_meters, package_zones, rapl_meters, rapl_problem

    if (reason := rapl_problem()) is not None:
        counters = " ".join(str(zone / "energy_uj") for zone in package_zones())
        problems.append(Problem(reason, f"until the next start: sudo chmod a+r {counters}"))
    return [*(meter.device for meter in nvml_meters()), *(meter.device for meter in rapl_meters())]
