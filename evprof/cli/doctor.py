"""`evprof doctor`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import evprof
from evprof.cli.command import Command, add_json_option
from evprof.cli.terminal.console import Console

PACKAGES = (
    *("torch", "transformers", "safetensors", "sentencepiece", "numpy", "av", "pillow"),
    *("h5py", "hdf5plugin", "aedat", "ijson", "PySide6_Essentials", "pyqtgraph", "psutil", "nvidia-ml-py"),
    *("rich", "tensorboard", "torch-tb-profiler"),
)

OPTIONAL = ("bitsandbytes", "hqq")
OPTIONAL_MISSING = "not installed: pip install 'evprof[quant]'"

EXAMINATION_TIMEOUT_S = 120


@dataclass(frozen=True)
class Problem:
    """Something that will not work here, and what to do about it."""

    problem: str
    fix: str


class DoctorCommand(Command):
    """Say what this installation consists of, what does not work, and how to mend it.

    Versions, GPU, Qt and its platform, video decoders, folders. Problems do not change the exit code.
    """

    name = "doctor"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Only --json."""
        add_json_option(parser)

    def run(self, options: argparse.Namespace, console: Console) -> int:
        """Examines every part, each on its own, so that a broken one hides no other."""
        from evprof.cli.terminal.facts import facts_lines

        document = examine()
        if console.is_json:
            console.document(document)
            return 0
        shown = {name: value for name, value in document.items() if name not in ("schema_version", "problems")}
        shown["optional"] = {name: version or OPTIONAL_MISSING for name, version in document["optional"].items()}
        for line in facts_lines(shown):
            console.print(line)
        console.print()
        for entry in document["problems"]:
            console.print(f"problem: {entry['problem']}\n    fix: {entry['fix']}")
        if not document["problems"]:
            console.print("No problems found.")
        return 0


def examine() -> dict[str, Any]:
    """The document: every part's facts, and problems with their fixes."""
    problems: list[Problem] = []
    return {
        "schema_version": 1,
        "evprof_version": evprof.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": _packages(problems),
        "optional": _optional(problems),
        "engine": _examined(
            "engine", problems, "reinstall torch and transformers (pip install --force-reinstall torch)"
        ),
        "gpu": _gpu(problems),
        "energy": _energy(problems),
        "window": _window(problems),
        "decoders": _decoders(problems),
        "models": _models(problems),
        "folders": _folders(problems),
        "problems": [asdict(problem) for problem in problems],
    }


def _packages(problems: list[Problem]) -> dict[str, str | None]:
    from importlib import metadata

    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
            if not getattr(sys, "frozen", False):
                problems.append(Problem(f"The package {name} is not installed.", f"pip install {name}"))
    return found


def _optional(problems: list[Problem]) -> dict[str, str | None]:
    """Versions of the libraries of quantization; that one is not there is no problem, that one does not load is."""
    from importlib import metadata

    found: dict[str, str | None] = {}
    for name in OPTIONAL:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    if any(found.values()):
        _examined("quantization", problems, "pip install --force-reinstall 'evprof[quant]'")
    return found


def ask(part: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `evprof _examine PART` printed, in a process of its own with `variables` set."""
    from evprof.cli.terminal.program import program_argv

    return subprocess.run(
        program_argv("_examine", part),
        capture_output=True,
        text=True,
        timeout=EXAMINATION_TIMEOUT_S,
        env={**os.environ, **variables},
        check=False,
    )


def _examined(part: str, problems: list[Problem], fix: str, **variables: str) -> dict[str, Any] | None:
    """The facts of one part, or None and a problem with the last line it left."""
    try:
        done = ask(part, **variables)
        if done.returncode == 0:
            facts: dict[str, Any] = json.loads(done.stdout)
            return facts
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].strip() if lines else f"it ended with code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        reason = str(error)
    problems.append(Problem(f"The {part} does not work: {reason}", fix))
    return None


def _gpu(problems: list[Problem]) -> dict[str, Any] | None:
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


def _energy(problems: list[Problem]) -> list[str]:
    """The devices whose energy or power is sampled during runs."""
    from evprof.run.meters.nvml_meter import nvml_meters
    from evprof.run.meters.rapl_meter import package_zones, rapl_meters, rapl_problem

    if (reason := rapl_problem()) is not None:
        counters = " ".join(str(zone / "energy_uj") for zone in package_zones())
        problems.append(Problem(reason, f"until the next start: sudo chmod a+r {counters}"))
    return [*(meter.device for meter in nvml_meters()), *(meter.device for meter in rapl_meters())]


def _window(problems: list[Problem]) -> dict[str, Any]:
    from evprof.cli.terminal.display import missing_display

    reason = missing_display()
    # Offscreen always: whether the libraries load is one question, whether somebody looks is another.
    fix = (
        "install Qt's system libraries (on Debian: apt install libegl1 libgl1 libxkbcommon0 libfontconfig1 libdbus-1-3)"
    )
    facts = _examined("window", problems, fix, QT_QPA_PLATFORM="offscreen")
    if reason:
        problems.append(
            Problem(f"No window can open: {reason}", "use evprof demo --headless, or log in with a display")
        )
    return {"display": reason is None, "libraries": facts}


def _decoders(problems: list[Problem]) -> dict[str, Any] | None:
    facts = _examined("decoders", problems, "reinstall PyAV (pip install --force-reinstall av)")
    missing = [name for name, is_there in (facts or {}).get("codecs", {}).items() if not is_there]
    if missing:
        problems.append(Problem(f"These video codecs cannot be read: {', '.join(missing)}", "pip install --upgrade av"))
    return facts


def _models(problems: list[Problem]) -> dict[str, bool]:
    from engines import CATALOGUE, bundled_folder

    there = {entry.name: bundled_folder(entry.name) is not None for entry in CATALOGUE if not entry.is_random}
    problems += [
        Problem(f"The bundled model {name} is missing.", "install evprof again")
        for name, is_there in there.items()
        if not is_there
    ]
    return there


def _folders(problems: list[Problem]) -> dict[str, dict[str, Any]]:
    from evprof.cli.models import hub_cache_folder
    from evprof.core.user_folders import log_folder
    from evprof.session.autosave import autosave_folder

    found = {}
    for name, folder in (("sessions", autosave_folder()), ("logs", log_folder()), ("models", hub_cache_folder())):
        writable = _is_writable(folder)
        found[name] = {"path": str(folder), "writable": writable}
        if not writable:
            problems.append(
                Problem(f"The folder of {name}, {folder}, cannot be written.", f"make it writable: {folder}")
            )
    return found


def _is_writable(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself can."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.access(place, os.W_OK)
