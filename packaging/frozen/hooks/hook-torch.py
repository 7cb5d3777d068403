"""PyInstaller: torch without its tests, headers and the source of what is not read as text."""

import importlib.util
import sys
from pathlib import Path

from PyInstaller.utils.hooks import PY_DYLIB_PATTERNS, collect_data_files, collect_dynamic_libs

sys.path.insert(0, str(Path(__file__).parents[2]))
from frozen.contents import is_wanted, modules_below, modules_read_as_text, torch_tests

_FOLDER = Path(importlib.util.find_spec("torch").submodule_search_locations[0])
datas = [
    (source, place)
    for source, place in collect_data_files("torch", excludes=["**/*.h", "**/*.hpp", "**/*.cuh", "**/*.cmake"])
    if is_wanted(f"{place}/{Path(source).name}")
]
binaries = collect_dynamic_libs("torch", search_patterns=[*PY_DYLIB_PATTERNS, "*.so.*"])
hiddenimports = list(modules_below(_FOLDER, torch_tests(_FOLDER)))
module_collection_mode = {"torch": "pyz"} | dict.fromkeys(modules_read_as_text(_FOLDER), "pyz+py")
warn_on_missing_hiddenimports = False
# Links to these beside the program would confuse torch about where its libraries lie.
bindepend_symlink_suppression = ["**/torch/lib/*.so*"]
