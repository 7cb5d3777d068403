"""Installs what pyproject.toml asks for into the environment of this Python: says first how much, then how far it is.

Usage: .venv/bin/python packaging/install_packages.py [EXTRA ...]      EVPROF_TORCH=cpu or cuda chooses torch's build.

Needs nothing but Python and pip. Interrupted, it goes on where it stopped: pip keeps what it has downloaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from requirements import ROOT, alone, name_of, required

CONSTRAINTS = ROOT / "constraints.txt"
LOG = ROOT / ".venv" / "setup.log"

DISK_PER_DOWNLOAD = 2.8
"""Bytes on disk for a byte of wheel: 2.3 GB for 0.8 GB when it was measured."""

NVIDIA_DEVICES = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
"""One of these exists where an NVIDIA driver is loaded; the last one under Windows' Linux."""


@dataclass(frozen=True)
class Package:
    """One wheel that pip would install; `size` in bytes, None where nobody says it, 0 where it lies on this machine."""

    name: str
    version: str
    url: str
    size: int | None = None

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"


class SetupError(Exception):
    """A sentence a person can act on."""


def pip(*words: str) -> list[str]:
    """The command line of this environment's pip."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *words]


def plan(requirements: list[str]) -> list[Package]:
    """What pip would install for `requirements` under constraints.txt. Raises SetupError."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        words = pip("install", "--dry-run", "--quiet", "--report", str(report), "-c", str(CONSTRAINTS), *requirements)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SetupError(sentence_of(done.stdout + done.stderr))
        entries = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [_package(entry) for entry in entries]


def _package(entry: dict[str, Any]) -> Package:
    metadata, url = entry["metadata"], entry["download_info"]["url"]
    return Package(metadata["name"], metadata["version"], url, 0 if url.startswith("file:") else None)


def weighed(packages: list[Package]) -> list[Package]:
    """The same with the sizes that the index tells, asked sixteen at a time."""

    def weigh(package: Package) -> Package:
        if package.size is not None:
            return package
        try:
            with urlopen(Request(package.url, method="HEAD"), timeout=10) as answer:
                size = int(answer.headers["Content-Length"])
        except (OSError, TypeError, ValueError):
            return package  # its size stays unknown; pip says more if it cannot be had
        return Package(package.name, package.version, package.url, size)

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(weigh, packages))


def has_nvidia_device() -> bool:
    """Whether this machine has an NVIDIA driver, as far as Linux' files tell."""
    return any(os.path.exists(path) for path in NVIDIA_DEVICES)


def wants_cpu_torch(packages: list[Package]) -> bool:
    """Whether torch would come with CUDA's libraries although no NVIDIA device is there to use them."""
    brings_cuda = any(
        package.name.lower().startswith("nvidia-") and package.name != "nvidia-ml-py" for package in packages
    )
    chosen = os.environ.get("EVPROF_TORCH", "").lower()
    if chosen not in ("", "cpu", "cuda"):
        raise SetupError(f"EVPROF_TORCH is {chosen!r}; it can be cpu or cuda.")
    return brings_cuda and (chosen == "cpu" or (not chosen and not has_nvidia_device()))


def install_cpu_torch(packages: list[Package]) -> bool:
    """Tries to install torch's CPU build, which has an index of its own that `uv` knows; whether it worked."""
    torch = next(package for package in packages if name_of(package.name) == "torch")
    print("No NVIDIA device was found: trying torch's smaller CPU build first", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        fetched = subprocess.run(pip("install", "--quiet", "--target", folder, "uv"), capture_output=True, check=False)
        if fetched.returncode:
            return False
        words = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
        words += ["--torch-backend", "cpu", "--constraint", str(CONSTRAINTS), torch.pin]
        environment = {**os.environ, "PYTHONPATH": folder, "UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "0"}
        done = subprocess.run(words, env=environment, capture_output=True, check=False)
    return done.returncode == 0


COLLECTED = re.compile(r"(?:Collecting |Processing \S*/)([A-Za-z][\w.]*(?:-[A-Za-z][\w.]*)*)")
"""pip's line for a package it begins with, wherever it lies."""


def install(packages: list[Package], log: Path = LOG) -> None:
    """Installs exactly these, told package by package. Raises SetupError."""
    sizes = {name_of(package.name): package.size or 0 for package in packages}
    total, fetched, count, start = sum(sizes.values()), 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text("".join(f"{package.pin}\n" for package in packages), encoding="utf-8")
        words = pip("install", "--no-deps", "--progress-bar", "off", "-r", str(wanted))
        log.parent.mkdir(exist_ok=True)
        with (
            log.open("w", encoding="utf-8") as stream,
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        ):
            for line in process.stdout or ():
                stream.write(line)
                if found := COLLECTED.match(line):
                    count += 1
                    fetched += sizes.get(name_of(found[1]), 0)
                    _tell(f"  {count:3} of {len(packages)}, {told(fetched)} of {told(total)}: {found[1]}")
                elif line.startswith("Installing collected packages"):
                    _tell(f"  Unpacking {len(packages)} packages", ends=True)
        if process.returncode:
            raise SetupError(sentence_of(log.read_text(encoding="utf-8", errors="replace")))
    _tell(f"  Installed {len(packages)} packages in {time.monotonic() - start:.0f} s", ends=True)


def _tell(line: str, *, ends: bool = False) -> None:
    """On a terminal one line that changes; in a log a line for what is large or last."""
    if sys.stdout.isatty():
        print(f"\r\033[K{line}", end="\n" if ends else "", flush=True)
    elif ends or re.match(r"\s+\d*0 of", line):
        print(line, flush=True)


def told(size: float) -> str:
    """Bytes as people read them."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def announced(packages: list[Package]) -> str:
    """How much is downloaded and where from the most of it comes, in a line or two."""
    total = sum(package.size or 0 for package in packages)
    largest = sorted(packages, key=lambda package: package.size or 0, reverse=True)[:3]
    parts = ", ".join(f"{package.name} {told(package.size)}" for package in largest if package.size)
    at_hand = sum(package.size == 0 for package in packages)
    of_it = f" (of it {parts})" if parts else ""
    lines = [f"Installing {len(packages)} packages: up to {told(total)} to download{of_it}"]
    if at_hand:
        lines[0] += f"; {at_hand} lie on this machine already"
    unknown = sum(package.size is None for package in packages)
    if unknown:
        lines.append(f"The sizes of {unknown} more are not told by the index")
    return "\n".join(lines)


def check_room(packages: list[Package]) -> None:
    """Raises SetupError when the disk has no room for them."""
    needed = DISK_PER_DOWNLOAD * sum(package.size or 0 for package in packages)
    free = shutil.disk_usage(ROOT).free
    if free < needed:
        raise SetupError(
            f"About {told(needed)} are needed on the disk of {ROOT}, and {told(free)} are free; make room first."
        )


NO_INDEX = ("name resolution", "Connection refused", "ConnectTimeoutError", "NewConnectionError", "unreachable",
            "ProxyError", "Max retries exceeded", "timed out", "Connection broken")  # fmt: skip


def sentence_of(output: str) -> str:
    """What pip's output amounts to, with the place of all of it where it was kept."""
    if "CERTIFICATE_VERIFY_FAILED" in output:
        return (
            "The package index's certificate is not trusted here, as behind a proxy that has its own: set PIP_CERT to "
            "the file of that proxy's certificate, then repeat."
        )
    if any(sign in output for sign in NO_INDEX):
        return (
            "The packages cannot be downloaded: the package index does not answer. Check the network, set https_proxy "
            "if there is a proxy, then repeat; what has arrived is kept."
        )
    if "No space left" in output:
        return "The disk is full; make room, then repeat: what has arrived is kept."
    if "Permission denied" in output:
        return f"{ROOT / '.venv'} cannot be written by this user; remove it, then repeat."
    errors = [line.removeprefix("ERROR: ") for line in output.splitlines() if line.startswith("ERROR")]
    return f"pip could not install the packages: {' '.join(errors[:3]) or output.strip()[-300:]}"


def main(extras: list[str]) -> int:
    """0 when everything is installed; 1 with a sentence on standard error."""
    try:
        requirements = required(extras)
        print("Looking up the packages", flush=True)
        packages = plan(requirements)
        if wants_cpu_torch(packages):
            if install_cpu_torch(packages):
                packages = plan(requirements)
            else:
                print("It cannot be had from here: taking the one with CUDA, which works without a GPU", flush=True)
        if by_itself := alone(extras):
            packages += plan(["--no-deps", *by_itself])
        if packages:
            packages = weighed(packages)
            print(announced(packages), flush=True)
            check_room(packages)
            install(packages)
        done = subprocess.run(
            pip("install", "--quiet", "--no-deps", "-e", str(ROOT)), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SetupError(sentence_of(done.stdout + done.stderr))
    except SetupError as failure:
        print(f"\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Repeat the command to go on: what has arrived is kept.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
