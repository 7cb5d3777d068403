"""Builds the wheel, installs it without our pins in a fresh environment, and runs the program's self-test.

Usage: python packaging/try_wheel.py [--python 3.12]      the versions of all packages are printed first
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from importlib.util import find_spec
from pathlib import Path

from install_packages import install_command
from requirements import ROOT


def make_environment(folder: Path, python: str) -> Path:
    """The Python of a new environment for `python`, a version or a program. Raises CalledProcessError."""
    if find_spec("uv") is not None:
        subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", "--python", python, folder], check=True)
    elif python == sys.executable:
        venv.create(folder, with_pip=True, symlinks=True)
    else:
        subprocess.run([python if "python" in python else f"python{python}", "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def main(words: list[str]) -> int:
    """0 when the installed wheel passes packaging/selftest.py. Raises CalledProcessError."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a version such as 3.12, or a program")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="evprof-wheel-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
        (wheel,) = folder.glob("*.whl")
        python = make_environment(folder / "environment", options.python)
        install, variables = install_command(python)
        subprocess.run([*install, wheel], env=variables, check=True)
        variables.pop("PYTHONPATH", None)  # the wheel is tried, not this checkout
        check = [python, ROOT / "packaging" / "selftest.py", python.with_name("evprof")]
        subprocess.run(check, cwd=folder, env=variables, check=True)
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"The wheel does not work: {error}") from None
