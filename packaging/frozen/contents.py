"""What goes into the frozen programs and what stays out: read by the spec, by PyInstaller's hooks and by the tests.

Patterns are those of `fnmatch`, on a place inside the bundle with forward slashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from packaging.requirements import Requirement
from requirements import required

CONSOLE, WINDOW = "evprof", "evprof-window"
"""The two programs. The console program has no Qt, the window program no torch."""

FAMILIES = ("llama", "clip", "qwen2", "llava", "video_llava", "auto")
"""Of transformers' models those that are used, and the one that the library itself cannot start without."""

NOWHERE = (
    # Other libraries' optional companions.
    *("tkinter", "IPython", "setuptools", "pip", "pygments"),
    *("torchvision", "tensorflow", "scipy", "faery", "rosbags", "tensorboard_data_server", "hf_xet"),
    "readline",  # GNU Readline is under the GPL
    # The quantization libraries are left to installations by pip: transformers loads torchao at every start.
    *("torchao", "bitsandbytes", "triton"),
)
"""Packages that neither program holds, besides those that `strangers` finds."""


def strangers() -> list[str]:
    """Modules of this environment that none of evprof's requirements leads to: they came for building and testing."""
    brought: set[str] = set()
    seen: set[str] = set()
    asked = [(Requirement(line), {""}) for line in required(["rosbag"])]
    while asked:
        found, extras = asked.pop()
        applies = found.marker is None or any(found.marker.evaluate({"extra": extra}) for extra in extras)
        if not applies or str(found) in seen:
            continue
        seen.add(str(found))
        brought.add(canonicalize_name(found.name))
        with suppress(metadata.PackageNotFoundError):
            lines = metadata.distribution(found.name).requires or ()
            asked += [(Requirement(line), found.extras | {""}) for line in lines]
    modules: dict[bool, set[str]] = {True: set(), False: set()}
    for name, distributions in metadata.packages_distributions().items():
        is_brought = any(canonicalize_name(distribution) in brought for distribution in distributions)
        modules[is_brought].add(name)
    return sorted(modules[False] - modules[True] - OURS)


OURS = {"evprof", "engines", "ui", "assets"}

NOT_IN_CONSOLE = ("PySide6", "shiboken6", "pyqtgraph", "ui")
NOT_IN_WINDOW = (
    *("torch", "transformers", "tokenizers", "safetensors", "sentencepiece", "huggingface_hub", "functorch"),
    *("tensorboard", "torch_tb_profiler", "pandas", "grpc", "sympy", "networkx"),
)

HDF5_FILTERS = ("blosc", "blosc2", "bshuf", "bzip2", "lz4", "zstd")
"""Those that event recordings are compressed with; the others are for floating-point fields and take 140 MB."""

_PLUGINS = "PySide6/Qt/plugins"
QT_PLUGINS = (
    *("platforms/libqxcb", "platforms/libqwayland", "platforms/libqoffscreen", "platforms/libqminimal.so"),
    *("imageformats/libqsvg", "imageformats/libqjpeg", "imageformats/libqico", "iconengines/", "xcbglintegrations/"),
    *("platforminputcontexts/libcompose", "platforminputcontexts/libibus", "platformthemes/libqxdgdesktopportal"),
    *("wayland-decoration-client/", "wayland-shell-integration/libxdg-shell"),
    "wayland-graphics-integration-client/libqt-plugin-wayland-egl",
    # Other systems' names.
    *("platforms/qwindows", "platforms/libqcocoa", "platforms/qoffscreen", "styles/", "imageformats/q"),
)
"""The plugins of Qt that a window can need; the rest are for QML, databases, virtual keyboards and embedded screens."""

LEFT_OUT = (
    # torch's C++ tests, their programs, and headers for compiling extensions.
    *("torch/test/*", "torch/include/*", "torch/share/*", "torch/lib/*_test.so", "*.pyi"),
    *("torch/lib/libbackend_with_compiler.so", "torch/lib/libshm_windows/*"),
    # The fast data server of TensorBoard, which is started without it.
    "tensorboard_data_server/*",
    # Pictures in AVIF, which nothing here reads or writes.
    "PIL/_avif*",
    "PySide6/Qt/translations/*",
    "PySide6/Qt/qml/*",
    *("*/tests/*", "*/testing/data/*"),
    # Where a package came from on the machine that built this, and which files pip wrote there.
    *("*.dist-info/direct_url.json", "*.dist-info/RECORD", "*.dist-info/INSTALLER", "*.dist-info/REQUESTED"),
    *("*.dist-info/WHEEL", "*.dist-info/uv_*", "*.dist-info/sboms/*"),
)
"""Data and libraries that packages bring and nothing here uses."""


def is_wanted(place: str) -> bool:
    """Whether a file belongs in the bundle, by its place there."""
    words = place.replace("\\", "/")
    name = words.rpartition("/")[2]
    if words.startswith("hdf5plugin/") and not name.endswith(".py"):
        return name.partition(".")[0].removeprefix("libh5") in HDF5_FILTERS
    if words.startswith("torch/bin/"):
        return name == "torch_shm_manager"  # torch does not start without it
    if words.startswith(f"{_PLUGINS}/"):
        return words.removeprefix(f"{_PLUGINS}/").startswith(QT_PLUGINS)
    return not any(fnmatchcase(words, pattern) for pattern in LEFT_OUT)


def unused_models(transformers: Path) -> list[str]:
    """The names of transformers' modules for models that are never loaded, given the package's folder."""
    folders = (path for path in (transformers / "models").iterdir() if (path / "__init__.py").is_file())
    return sorted(f"transformers.models.{path.name}" for path in folders if path.name not in FAMILIES)


def modules_below(package: Path, without: Iterable[str] = ()) -> Iterator[str]:
    """The dotted names of all modules in a package's folder, without importing any.

    `without` names modules that are left out with everything below them.
    """
    left_out = tuple(without)
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if all(part.isidentifier() for part in parts) and not any(
            name == other or name.startswith(f"{other}.") for other in left_out
        ):
            yield name


TORCH_TESTS_IN_USE = ("common_dtype", "logging_tensor", "distributed", "distributed.fake_pg")
"""Of torch's own test helpers those that torch itself imports."""


def torch_tests(torch: Path) -> list[str]:
    """The other test helpers of torch, given the package's folder."""
    internal = torch / "testing" / "_internal"
    folders = (internal, internal / "distributed")
    found = [path for folder in folders for path in folder.iterdir() if path.name != "__init__.py"]
    modules = [path for path in found if path.suffix == ".py" or (path / "__init__.py").is_file()]
    names = (".".join(path.relative_to(internal).with_suffix("").parts) for path in modules)
    return sorted(f"torch.testing._internal.{name}" for name in names if name not in TORCH_TESTS_IN_USE)


_READS_ITSELF = (
    *("install_config_module(", "torch.jit.script", "inspect.getsource"),
    *("import _overload", "    _overload,", "_jit_internal._overload"),
)


def modules_read_as_text(torch: Path) -> list[str]:
    """The modules of torch whose source is read when they are imported, so that it must come along: settings, whose
    comments count, and functions that TorchScript compiles or knows several forms of."""
    found = {
        "torch._decomp",
        "torch._refs",
        "torch._prims",
        "torch._prims_common",
        "torch.jit",
        "torch.utils._config_module",
    }
    for path in torch.rglob("*.py"):
        parts = path.relative_to(torch.parent).with_suffix("").parts
        if "testing" in parts or not any(sign in path.read_text(encoding="utf-8") for sign in _READS_ITSELF):
            continue
        if parts[-1] != "__init__":
            found.add(".".join(parts))
    return sorted(found)
