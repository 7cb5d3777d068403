"""The packages that evprof is made of, and the optional ones."""

from __future__ import annotations

from evprof.cli.doctor.examination import Examinations
from evprof.cli.doctor.problem import Problem
from evprof.core.installation import EXTRAS, how_to_add, how_to_mend, is_bundle

PACKAGES = (
    *("torch", "transformers", "safetensors", "sentencepiece", "numpy", "av", "pillow"),
    *("h5py", "hdf5plugin", "aedat", "ijson", "msgspec", "PySide6_Essentials", "pyqtgraph", "psutil", "nvidia-ml-py"),
    *("rich", "shtab", "tensorboard", "torch-tb-profiler"),
)

QUANTIZATION = "quantization"
"""The examination that loads the libraries of `quant`."""


def versions(problems: list[Problem]) -> dict[str, str | None]:
    """The version of every package; one that is missing is a problem, but in the frozen program, which holds them."""
    found = {name: _version(name) for name in PACKAGES}
    if not is_bundle():
        problems += [
            Problem(f"The package {name} is not installed.", how_to_mend(name, "install"))
            for name, version in found.items()
            if version is None
        ]
    return found


def optional_versions() -> dict[str, str | None]:
    """Versions of the libraries of all extras; that one is not there is no problem."""
    return {name: _version(name) for names in EXTRAS.values() for name in names}


def optional_text(name: str, version: str | None) -> str:
    """What people read of one of them."""
    if version is not None:
        return version
    extra = next(extra for extra, names in EXTRAS.items() if name in names)
    return f"not installed; {how_to_add(f'evprof[{extra}]')}"


def has_quantization(found: dict[str, str | None]) -> bool:
    """Whether any library of quantization is there."""
    return any(found[name] for name in EXTRAS["quant"])


def check_optional(found: dict[str, str | None], examinations: Examinations, problems: list[Problem]) -> None:
    """That an optional library which is there does not load is a problem."""
    if has_quantization(found):
        examinations.facts(QUANTIZATION, problems, how_to_mend("evprof[quant]"))


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
