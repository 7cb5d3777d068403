"""The packages that evprof is made of, and the optional ones."""

from __future__ import annotations

from evprof.cli.doctor.problem import Problem
from evprof.core.installation import EXTRAS, how_to_add, how_to_mend, is_bundle

PACKAGES = (
    *("torch", "transformers", "safetensors", "sentencepiece", "numpy", "av", "pillow"),
    *("h5py", "hdf5plugin", "aedat", "ijson", "msgspec", "PySide6_Essentials", "pyqtgraph", "psutil", "nvidia-ml-py"),
    *("rich", "shtab", "tensorboard", "torch-tb-profiler"),
)

NEEDED = {"engine": "torch", "window": "PySide6_Essentials", "decoders": "av"}
"""The package without which a part is not examined."""

QUANTIZATION = "quantization"
"""The examination that loads the libraries of `quant`."""


def versions(problems: list[Problem]) -> dict[str, str | None]:
    """The version of every package; a missing one is a problem, except in bundles and where sessions are only read."""
    found = {name: _version(name) for name in PACKAGES}
    if not is_bundle() and not is_for_reading(found):
        problems += [
            Problem(f"The package {name} is not installed.", how_to_mend(name, "install"))
            for name, version in found.items()
            if version is None
        ]
    return found


def is_for_reading(found: dict[str, str | None]) -> bool:
    """Whether this installation has neither the engine's nor the window's packages, so that it only reads sessions."""
    return not is_bundle() and not any(found.get(name) for name in (NEEDED["engine"], NEEDED["window"]))


def optional_versions() -> dict[str, str | None]:
    """Versions of the libraries of all extras; that one is not there is no problem."""
    return {name: _version(name) for names in EXTRAS.values() for name in names}


def optional_text(name: str, version: str | None) -> str:
    """What people read of one of them."""
    if version is not None:
        return version
    extra = next(extra for extra, names in EXTRAS.items() if name in names)
    return f"not installed; {how_to_add(f'evprof[{extra}]')}"


def installed_parts(found: dict[str, str | None], optional: dict[str, str | None]) -> list[str]:
    """The parts that can be examined."""
    parts = [part for part, package in NEEDED.items() if is_bundle() or found.get(package)]
    return [*parts, QUANTIZATION] if any(optional[name] for name in EXTRAS["quant"]) else parts


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
