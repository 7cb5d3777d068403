"""Where evprof keeps what, which variables it listens to, and with which codes it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from evprof.core.errors import EXIT_CODES
from evprof.core.files import user_folders
from site_pages.markdown import code, table

FOLDERS: dict[Callable[[], Path], dict[str, str]] = {
    user_folders.data_folder: {
        "sessions": "sessions that nobody has named yet (autosaves)",
        "overhead.json": "what recording costs on this machine (`evprof bench overhead`), for the status bar",
    },
    user_folders.cache_folder: {
        "inductor": "compiled decode steps (`--step compiled`)",
    },
    user_folders.log_folder: {"": "reports of defects: what to attach when something broke"},
}
"""What is kept in which folder; a test compares it with the code."""

VARIABLES = {
    "XDG_DATA_HOME": "where the data folder is (Linux, macOS)",
    "XDG_CACHE_HOME": "where the cache folder is",
    "XDG_STATE_HOME": "where the log folder is",
    "LOCALAPPDATA": "where all three are on Windows",
    "HF_HOME": "where models fetched from the hub are kept (default: `~/.cache/huggingface`)",
    "HF_HUB_CACHE": "the same, the folder of the models itself",
    "HF_HUB_OFFLINE": "`1`: never ask the hub, take what was fetched before",
    "HF_ENDPOINT": "another address of the hub, such as a mirror",
    "COLUMNS": "how many columns lines may have in a terminal, in place of what the terminal says",
    "QT_QPA_PLATFORM": "how Qt draws: `offscreen` draws without a display, `xcb` through X11, `wayland`",
    "TORCHINDUCTOR_CACHE_DIR": "where compiled decode steps are kept instead",
    "TRITON_INTERPRET": "`1` runs the GPU kernels on the CPU, slowly: for tests",
    "PYTORCH_ALLOC_CONF": "settings of PyTorch's GPU allocator, noted in every session",
    "PYTORCH_CUDA_ALLOC_CONF": "the same by its older name",
    "OMP_NUM_THREADS": "how many CPU threads torch takes; engines of a suite on Ray are given their own number",
    "CUDA_VISIBLE_DEVICES": "which GPUs there are for evprof",
}
"""The variables that a person may set; a test compares them with the code."""

_INTRODUCTION = """# Files and folders

evprof writes where you tell it to, and into three folders of your own. `evprof doctor` prints those of your machine.
"""

_AFTER = """
Beside these, Qt keeps the window's size, its theme and the recent samples in `~/.config/evprof/evprof.conf`; models
from the hub lie in the Hugging Face cache, which other programs share; and Triton keeps compiled kernels in
`~/.triton`.

## Uninstalling

1. Remove the program: the folder of the checkout with its `.venv`, `pip uninstall evprof`, or the package you
   [installed](../installing.md).
2. Remove the cache and log folders above, and `~/.config/evprof`. Nothing in them is missed.
3. Keep or remove the data folder: it holds your unnamed sessions. Sessions saved elsewhere are ordinary files of yours.

## Exit codes
"""

_VARIABLES = """
## Environment variables

None has to be set.
"""


def page() -> str:
    return "\n".join((_INTRODUCTION, _folders(), _AFTER, _codes(), _VARIABLES, _variables()))


def _folders() -> str:
    rows = []
    with patch.dict(os.environ):
        for variable in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            os.environ.pop(variable, None)
        for folder, held in FOLDERS.items():
            home = "~/" + folder().relative_to(Path.home()).as_posix()
            rows += [(code(f"{home}/{name}".rstrip("/")), meaning) for name, meaning in held.items()]
    return table(("on Linux", "holds"), rows)


def _codes() -> str:
    return table(("code", "meaning"), ((str(number), meaning) for number, meaning in EXIT_CODES.items()))


def _variables() -> str:
    return table(("variable", "meaning"), ((code(name), meaning) for name, meaning in VARIABLES.items()))
