"""Cuts the frozen folder down: symbols that nobody reads, libraries that nobody loads."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

INNER = "_internal"

_PT_LOAD, _PAGE = 1, 4096


def shared_objects(folder: Path) -> Iterator[Path]:
    """Every ELF file below a folder, links left out."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def needed_by(path: Path) -> set[str]:
    """The names of the libraries that an ELF file asks for."""
    listed = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\)[^[]*\[([^]]+)\]", listed))


def unneeded(folder: Path) -> list[Path]:
    """Libraries at the top of the bundle that nothing in it asks for: they came with plugins that were left out.

    Python's own library is asked for by the programs, and modules (named for an interpreter) by imports.
    """
    inner = folder / INNER
    asked = {path: needed_by(path) for path in shared_objects(folder)}
    tops = [path for pattern in ("*.so", "*.so.*", "*.libs/*", "PySide6/Qt/lib/*") for path in inner.glob(pattern)]
    candidates = [path for path in tops if path.name.startswith("lib") and not path.name.startswith("libpython")]
    gone: set[Path] = set()
    while True:
        wanted = {name for path, names in asked.items() if path not in gone for name in names}
        # A link is a name of what it points to.
        found = [path for path in candidates if path not in gone and path.name not in wanted]
        if not found:
            return sorted(gone)
        gone.update(found)


def strip(folder: Path) -> int:
    """Takes the symbols that only debuggers read from every library; the bytes saved. Programs are left alone: the
    archive of modules is appended to them."""
    saved = 0
    for path in shared_objects(folder / INNER):
        stripped = path.with_name(f"{path.name}.stripped")
        words = ["strip", "--strip-unneeded", "-o", str(stripped), str(path)]
        done = subprocess.run(words, capture_output=True, check=False)
        # Wheels hold libraries whose headers were moved after linking; of these strip makes some that do not load.
        if done.returncode == 0 and can_be_mapped(stripped):
            saved += path.stat().st_size - stripped.stat().st_size
            stripped.replace(path)
        else:
            stripped.unlink(missing_ok=True)
    return saved


def can_be_mapped(path: Path) -> bool:
    """Whether every segment of a 64-bit ELF file lies where the loader can map it: at its address's place in a page."""
    data = path.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 0x20)
    size, count = struct.unpack_from("<HH", data, 0x36)
    for number in range(count):
        kind, _, offset, address, _, _, _, align = struct.unpack_from("<IIQQQQQQ", data, start + number * size)
        if kind == _PT_LOAD and align > 1 and (offset - address) % min(align, _PAGE):
            return False
    return True


def trim(folder: Path) -> str:
    """Both; a line that says what it brought. Does nothing to a folder that is trimmed already."""
    libraries = unneeded(folder)
    size = sum(path.lstat().st_size for path in libraries)
    for path in libraries:
        path.unlink()
    return (
        f"left out {len(libraries)} libraries ({size / 1e6:.0f} MB), stripped {strip(folder) / 1e6:.0f} MB of symbols"
    )


def newest_glibc(folder: Path) -> str:
    """The version of the C library that the bundle needs, such as `2.36`."""
    versions = {(2, 17)}
    for path in shared_objects(folder):
        listed = subprocess.run(["readelf", "-VW", str(path)], capture_output=True, text=True, check=False).stdout
        versions |= {(int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", listed)}
    return "{}.{}".format(*max(versions))
