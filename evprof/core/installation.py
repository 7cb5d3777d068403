"""How this evprof was installed, and what follows: where its programs lie, and how a missing part is added.

Installed by pip there is one program, Python. Installed as a *bundle* (a .deb, a .run, a folder) there are two beside
each other, a console program without Qt and a window program without torch, and pip cannot add anything.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path

from evprof.version import __version__

CONSOLE, WINDOW = "evprof", "evprof-window"

EXTRAS = {
    "quant": ("bitsandbytes",),
    "rosbag": ("lz4",),
    "parquet": ("pyarrow",),
    "ray": ("ray", "opentelemetry-api"),
    "rerun": ("rerun-sdk",),
}
"""The extras of the installation and what each brings."""

IN_BUNDLES = ("rosbag",)
"""Extras that bundles hold."""

NOT_IN_BUNDLES = (*(f"evprof[{extra}]" for extra in EXTRAS if extra not in IN_BUNDLES), "pandas")
"""What can be installed by pip only."""


def is_bundle() -> bool:
    return bool(getattr(sys, "frozen", False))


def bundled_program(name: str) -> Path:
    here = Path(sys.executable)
    return here.with_name(f"{name}{here.suffix if here.suffix == '.exe' else ''}")


def is_without_qt() -> bool:
    """Whether this is a bundle's console program, which must leave windows to the other."""
    return is_bundle() and Path(sys.executable).stem != WINDOW


def missing_package(name: str) -> str:
    """What a person can do about a package that an ordinary installation has, such as one made with `--no-deps`."""
    remedy = "install evprof again" if is_bundle() else "`pip install evprof` adds what this installation lacks"
    return f"The Python package '{name}' is missing; {remedy}."


def how_to_add(what: str) -> str:
    """What a person can do about a missing package or extra (`evprof[quant]`), to be said after "needs X; "."""
    if not is_bundle():
        return f"install it with `pip install {_quoted(what)}`"
    if what in NOT_IN_BUNDLES:
        return "the installed program comes without it, and evprof in a Python environment can have it"
    return "install evprof again, which brings it"


def how_to_mend(what: str, by: str = "install --force-reinstall") -> str:
    """What a person can do about a package or extra that is there and does not work; `by` is what pip would do."""
    return "install evprof again" if is_bundle() else f"pip {by} {_quoted(what)}"


def _quoted(what: str) -> str:
    return f"'{what}'" if "[" in what else what


_HERE = Path(__file__).resolve().parents[1]

BUILD_FILE = "build.txt"
"""Beside the package: the commit, written by what makes a release; in a checkout git reports it."""

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def commit(package: Path = _HERE) -> str | None:
    """The commit this program was made from, as a full or a short hash; None where it is unknown."""
    words = ["git", "-C", str(package.parent), "rev-parse", "HEAD"]
    text = ""
    with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
        if (package / BUILD_FILE).is_file():
            text = (package / BUILD_FILE).read_text(encoding="ascii")
        elif (package.parent / ".git").exists():
            text = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10).stdout
    return text.strip() if _COMMIT.fullmatch(text.strip()) else None


def version_text() -> str:
    """`evprof 0.2.0 (commit 796e839a)`."""
    found = commit()
    return f"evprof {__version__}{f' (commit {found[:8]})' if found else ''}"
