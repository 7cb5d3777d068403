"""Archives whose bytes depend on nothing but the files: names in order, one time, no owner."""

from __future__ import annotations

import subprocess
from pathlib import Path

XZ = ("xz", "-8", "-T2", "--stdout")
ZSTD = ("zstd", "-19", "-T2", "--long=27", "--stdout")


def tar(folder: Path, time: int, *names: str) -> list[str]:
    """The command that writes a tar of these names in a folder to its standard output."""
    options = ["--sort=name", f"--mtime=@{time}", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]
    return ["tar", "-C", str(folder), *options, "--mode=u+rwX,go+rX,go-w", "-cf", "-", *names]


def compress(command: list[str], program: tuple[str, ...], out: Path) -> None:
    """Writes what a command puts out, compressed by a program, to a file. Raises CalledProcessError."""
    with out.open("wb") as file, subprocess.Popen(command, stdout=subprocess.PIPE) as source:
        done = subprocess.run(program, stdin=source.stdout, stdout=file, check=False)
    for code, words in ((source.returncode, command), (done.returncode, list(program))):
        if code:
            raise subprocess.CalledProcessError(code, words)
