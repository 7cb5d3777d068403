"""Installs evprof and its packages into the environment of this Python: with uv, or with pip where there is no uv.

Usage: .venv/bin/python packaging/install_packages.py [EXTRA ...]      EVPROF_TORCH=cpu or cuda chooses torch's build.

Needs only Python and pip. uv links packages from its cache: another clone on the same disk needs seconds and no space.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from requirements import ROOT, alone

CONSTRAINED = ("-c", str(ROOT / "constraints.txt"))

NVIDIA_DEVICES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""One of these exists where an NVIDIA driver is loaded; the last one under Windows' Linux."""

UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
"""pip's settings that uv needs, too, and uv's variables for them."""


def uv_settings(listed: str) -> dict[str, str]:
    """uv's variables for the settings that `pip config list` prints, and the choice among indexes that pip makes."""
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, value in re.findall(r"^(?:global|install|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE):
        if name in UV_NAMES:
            separator = "," if name == "find-links" else " "
            found[UV_NAMES[name]] = separator.join(value.replace("\\n", " ").split())
    return found


def install_command(python: Path) -> tuple[list[str], dict[str, str]]:
    """The command that installs into the environment of `python`, and its variables: uv's if this Python has uv."""
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    if find_spec("uv") is None:
        return [*pip, "install"], dict(os.environ)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], stdout=subprocess.PIPE, text=True, check=False
    )
    variables = {**uv_settings(listed.stdout), **os.environ}
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", str(python)]
    return [*command, *torch_backend(command, variables)], variables


def torch_backend(command: list[str], variables: dict[str, str]) -> list[str]:
    """uv's option for torch's CPU build, if no NVIDIA device is there and the index of these builds answers."""
    has_device = any(map(os.path.exists, NVIDIA_DEVICES))
    chosen = variables.get("EVPROF_TORCH") or ("cuda" if has_device else "cpu")
    if chosen not in ("cpu", "cuda"):
        raise SystemExit(f"EVPROF_TORCH is {chosen!r}; it can be cpu or cuda.")
    option = ["--torch-backend", "cpu"]
    trial = [*command, *option, "--dry-run", "--no-deps", "--reinstall", *CONSTRAINED, "torch"]
    hurried = {**variables, "UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "0"}
    if chosen == "cuda" or subprocess.run(trial, env=hurried, capture_output=True, check=False).returncode:
        return []
    return option


def fetch_uv() -> None:
    """Installs uv into the environment of this Python; without it everything works, more slowly."""
    quiet_pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*quiet_pip, *CONSTRAINED, "uv"], stderr=subprocess.DEVNULL, check=False).returncode:
        print("uv cannot be downloaded: pip installs the packages, which takes longer", flush=True)


def main(extras: list[str]) -> int:
    """0 when everything is installed; else the installer's exit code, with a sentence after its own words."""
    install, variables = install_command(Path(sys.executable))
    steps = [["-e", f".[{','.join(extras)}]" if extras else "."]]
    if by_itself := alone(extras):
        steps.append(["--no-deps", *by_itself])
    for step in steps:
        done = subprocess.run([*install, *CONSTRAINED, *step], env=variables, cwd=ROOT, check=False)
        if done.returncode:
            print(
                "The packages could not be installed; the lines above say why. Check the network (https_proxy, and "
                "PIP_CERT for a proxy's certificate) and the room on the disk, then repeat: downloads are kept.",
                file=sys.stderr,
            )
            return done.returncode
    return 0


if __name__ == "__main__":
    try:
        fetch_uv()
        raise SystemExit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        raise SystemExit("\nStopped. Repeat the command to go on: downloads are kept.") from None
