"""`evprof doctor`: every part of an installation has a function that returns its facts and adds its problems."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from evprof.cli.command import Command, CommandExample, advanced
from evprof.cli.doctor.examination import Examinations, Problem
from evprof.cli.options import add_json_option
from evprof.cli.terminal.console import Console
from evprof.core.errors import UsageError
from evprof.core.installation import EXTRAS, commit, how_to_mend, is_bundle
from evprof.version import __version__

PACKAGES = (
    *("torch", "transformers", "safetensors", "sentencepiece", "numpy", "av", "pillow"),
    *("h5py", "hdf5plugin", "lz4", "ijson", "msgspec", "PySide6_Essentials", "pyqtgraph", "psutil", "nvidia-ml-py"),
    *("jinja2", "matplotlib", "backports.zstd", "rich", "shtab", "tensorboard", "torch-tb-profiler"),
)

NEEDED = {"engine": "torch", "window": "PySide6_Essentials", "decoders": "av"}
"""The package without which a part is not examined."""

QUANTIZATION = "quantization"
"""The examination that loads the libraries of `quant`."""

_MOST_FILES = 100_000
"""Files whose sizes are added up; a larger folder is reported as taking at least that."""


class DoctorCommand(Command):
    """Say what this installation consists of, what does not work, and how to mend it.

    Versions, GPU, Qt, folders; the bundled sample is read and a bundled model answers. Problems do not change the exit
    code.

    --install-cuda makes the installed program use NVIDIA GPUs, without a network. The CUDA add-on is a folder of
    wheels, evprof-cuda, made where the packages can be downloaded and carried here. Every file is checked, and nothing
    is changed when one is damaged. --remove-cuda brings the torch for CPUs back. In an environment of pip, pip does it.
    """

    name = "doctor"
    examples = (
        CommandExample("evprof doctor", "look for what does not work here"),
        CommandExample("evprof doctor --json", "the same as JSON, to send to whoever helps"),
        CommandExample(
            "evprof doctor --install-cuda evprof-cuda", "use NVIDIA GPUs, from a folder that was brought here"
        ),
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--install-cuda", metavar="DIR", type=Path, help="install the CUDA add-on from this folder")
        advanced(parser.add_argument("--remove-cuda", action="store_true", help="go back to the CPU"))
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        if options.install_cuda is not None or options.remove_cuda:
            _change_cuda(options, console)
            return 0
        console.note("Examining every part; the engine takes longest.")
        document = examine()
        if console.is_json:
            console.document(document)
            return 0
        console.facts({name: value for name, value in document.items() if name not in ("schema_version", "problems")})
        console.print()
        for entry in document["problems"]:
            console.print(f"problem: {entry['problem']}\n    fix: {entry['fix']}")
        if not document["problems"]:
            console.print("No problems found.")
        return 0


def _change_cuda(options: argparse.Namespace, console: Console) -> None:
    from evprof.cli.doctor import cuda

    if options.install_cuda is not None and options.remove_cuda:
        raise UsageError("Give one of --install-cuda and --remove-cuda.")
    if options.install_cuda is not None:
        cuda.install(options.install_cuda, console.note)
        console.note("The CUDA add-on is installed.")
    else:
        is_gone = cuda.remove(cuda.bundle_folder())
        console.note("The CUDA add-on is removed." if is_gone else "There is no CUDA add-on here.")


def examine() -> dict[str, Any]:
    problems: list[Problem] = []
    installed = {name: _version(name) for name in PACKAGES}
    optional = {name: _version(name) for names in EXTRAS.values() for name in names}
    only_reads = not is_bundle() and not (installed.get(NEEDED["engine"]) or installed.get(NEEDED["window"]))
    if not is_bundle() and not only_reads:
        problems += [
            Problem(f"The package {name} is not installed.", how_to_mend(name, "install"))
            for name, version in installed.items()
            if version is None
        ]
    parts = [part for part, package in NEEDED.items() if is_bundle() or installed.get(package)]
    parts += [QUANTIZATION] if any(optional[name] for name in EXTRAS["quant"]) else []
    with contextlib.closing(Examinations(parts)) as examinations:
        document: dict[str, Any] = {
            "schema_version": 1,
            "evprof_version": __version__,
            "commit": commit(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "only_reads_sessions": only_reads,
            "packages": installed,
            "optional": optional,
            "gpu": _gpu_facts(problems),
            "energy": energy_devices(problems),
            "models": _model_facts(problems),
            "folders": _folder_facts(problems),
            "decoders": _decoder_facts(examinations, problems),
            "window": _window_facts(examinations, problems),
            "engine": examinations.facts("engine", problems, how_to_mend("torch transformers")),
        }
        examinations.facts(QUANTIZATION, problems, how_to_mend("evprof[quant]"))
        _check_gpu(document["gpu"], document["engine"], problems)
    document["problems"] = [asdict(problem) for problem in problems]
    return document


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _gpu_facts(problems: list[Problem]) -> dict[str, Any] | None:
    """The first NVIDIA GPU by NVML, without torch; None without one."""
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


def _check_gpu(gpu: dict[str, Any] | None, engine: dict[str, Any] | None, problems: list[Problem]) -> None:
    """Why a GPU in this machine is not used: a torch for CPUs, or what torch says of the driver and the card."""
    if engine is None:
        return
    complaints = engine.pop("gpu_warnings", [])
    if gpu is None:
        return
    if engine.get("cuda") is None:
        version = str(engine.get("torch"))
        index = f"offer pip an index with torch {version.partition('+')[0]} for CUDA: {how_to_mend('torch')}"
        fix = "evprof doctor --install-cuda FOLDER, with the folder of the CUDA add-on" if is_bundle() else index
        problems.append(Problem(f"{gpu['name']} is not used: torch {version} is built for CPUs alone.", fix))
    fix = f"install a driver or a torch that fit each other (driver {gpu['driver']}), or choose --device cpu"
    problems += [Problem(complaint, fix) for complaint in complaints]


def energy_devices(problems: list[Problem]) -> list[str]:
    from evprof.run.meters.samplers import nvml_meters, package_zones, rapl_meters, rapl_problem

    if (reason := rapl_problem()) is not None:
        counters = " ".join(str(zone / "energy_uj") for zone in package_zones())
        problems.append(Problem(reason, f"until the next start: sudo chmod a+r {counters}"))
    return [*(meter.device for meter in nvml_meters()), *(meter.device for meter in rapl_meters())]


def _model_facts(problems: list[Problem]) -> dict[str, bool]:
    from engines import CATALOGUE, bundled_folder

    facts = {entry.name: bundled_folder(entry.name) is not None for entry in CATALOGUE if not entry.is_random}
    problems += [
        Problem(f"The bundled model {name} is missing.", "install evprof again")
        for name, is_there in facts.items()
        if not is_there
    ]
    return facts


def _folder_facts(problems: list[Problem]) -> dict[str, dict[str, Any]]:
    """The folders of sessions, other data, logs, cache and fetched models: size, and whether they can be written."""
    from evprof.core.files.user_folders import cache_folder, data_folder, hub_cache_folder, log_folder
    from evprof.session.autosave import abandoned, autosave_folder, told

    folders = {
        "sessions": autosave_folder(),
        "data": data_folder(),
        "logs": log_folder(),
        "cache": cache_folder(),
        "models": hub_cache_folder(),
    }
    if sentence := told(abandoned()):
        problems.append(Problem(f"{sentence}.", "open it in the window (evprof gui PATH), or remove it"))
    facts = {}
    for name, folder in folders.items():
        writable = _is_writable(folder)
        files, size = disk_use(folder)
        facts[name] = {"path": str(folder), "writable": writable, "files": files, "bytes": size}
        if not writable:
            problems.append(
                Problem(f"The folder of {name}, {folder}, cannot be written.", f"make it writable: {folder}")
            )
    return facts


def disk_use(folder: Path) -> tuple[int, int]:
    """Files below a folder and their bytes, links not followed; none where it does not exist or cannot be read."""
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_size
            except OSError:
                continue  # it has just been removed
            files += 1
        if files >= _MOST_FILES:
            break
    return files, size


def _is_writable(folder: Path) -> bool:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.access(place, os.W_OK)


def _decoder_facts(examinations: Examinations, problems: list[Problem]) -> dict[str, Any] | None:
    facts = examinations.facts("decoders", problems, how_to_mend("av"))
    missing = [name for name, is_there in (facts or {}).get("codecs", {}).items() if not is_there]
    if missing:
        problems.append(
            Problem(f"These video codecs cannot be read: {', '.join(missing)}", how_to_mend("av", "install --upgrade"))
        )
    return facts


def _window_facts(examinations: Examinations, problems: list[Problem]) -> dict[str, Any]:
    """Whether this machine has a display, and whether the window's libraries load."""
    from evprof.cli.terminal.program import missing_display

    libraries = (
        "install the system libraries that Qt names (Debian: apt install libegl1 libxcb-cursor0 libxkbcommon-x11-0)"
    )
    facts = examinations.facts("window", problems, how_to_mend("PySide6") if is_bundle() else libraries)
    display = missing_display()
    if display and "window" in examinations:
        problems.append(Problem(f"No window can open: {display}", "run without a window: evprof demo --headless"))
    return {"display": not display, "libraries": facts}
