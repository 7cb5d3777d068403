"""The self-extracting file: a shell script, a decompressor for machines without one, and the packed program."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from installer.archives import tar

HEAD = Path(__file__).with_name("install.sh")


def head(values: dict[str, object]) -> bytes:
    """The script with its values in place; it knows its own length."""
    text = HEAD.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    length = 0
    while (size := len(text.replace("@HEAD_BYTES@", str(length)).encode())) != length:
        length = size
    return text.replace("@HEAD_BYTES@", str(length)).encode()


def decompressor(work: Path, time: int) -> bytes:
    """`xz` of this machine with its library, as .tar.gz: not every system has one, and `gzip` every one has."""
    folder = work / "tools"
    folder.mkdir()
    program = shutil.which("xz")
    if program is None:
        raise SystemExit("xz is missing; install xz-utils.")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    library = next(line.split()[2] for line in listed.splitlines() if "liblzma" in line)
    shutil.copy(program, folder / "xz")
    shutil.copy(library, folder / "liblzma.so.5")
    plain = subprocess.run(tar(folder, time, "xz", "liblzma.so.5"), stdout=subprocess.PIPE, check=True).stdout
    return subprocess.run(["gzip", "-9n"], input=plain, stdout=subprocess.PIPE, check=True).stdout


def write_run(out: Path, data: Path, tools: bytes, values: dict[str, object]) -> None:
    """Writes the file; `data` holds the program below ./opt/evprof, `values` version, size and number of its files."""
    checksum = hashlib.sha256(tools)
    with data.open("rb") as file:
        while piece := file.read(1 << 24):
            checksum.update(piece)
    known = {"CHECKSUM": checksum.hexdigest(), "PAYLOAD_BYTES": data.stat().st_size, "DECOMPRESSOR_BYTES": len(tools)}
    with out.open("wb") as file, data.open("rb") as source:
        file.write(head({**values, **known}))
        file.write(tools)
        shutil.copyfileobj(source, file, 1 << 24)
    out.chmod(0o755)
