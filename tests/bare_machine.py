"""A machine without window, video and format libraries, as a GPU machine may be: the environment of its processes."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ABSENT = (
    *("platformdirs", "PySide6", "shiboken6", "pyqtgraph", "av", "ijson", "hdf5plugin", "lz4", "backports.zstd"),
    *("tensorboard", "torch_tb_profiler", "pynvml", "nvidia_ml_py", "torchao", "bitsandbytes", "torchcodec"),
)

WITHOUT_THEM = f"""
import sys
from importlib.machinery import PathFinder

ABSENT = {ABSENT!r}

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in ABSENT else super().find_spec(name, path, target)

    @classmethod
    def find_distributions(cls, *args, **more):
        return [one for one in super().find_distributions(*args, **more) if one.name.replace("-", "_") not in ABSENT]

sys.meta_path[sys.meta_path.index(PathFinder)] = Bare
"""


def bare_environment(folder: Path) -> dict[str, str]:
    """The environment of processes that lack these modules and their versions; `folder` takes what it needs."""
    (folder / "sitecustomize.py").write_text(WITHOUT_THEM)
    paths = os.pathsep.join(map(str, (folder, ROOT)))
    own = {name: str(folder / name) for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
    return {**os.environ, **own, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
