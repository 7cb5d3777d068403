"""Finds what a frozen program is made of: Python, its distributions, what lies in these, libraries of the system."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from licences.policy import HERE, LicenceError, Policy, normal

_TEXT_NAMES = re.compile("(licen[cs]e|copying|notice|copyright|authors)", re.IGNORECASE)
_OURS = frozenset({"evprof", "engines", "ui", "assets"})


@dataclass(frozen=True)
class Component:
    """One part. `texts`: files that hold its licence; `sha256`: of the file or archive that `hash_of` names."""

    name: str
    version: str
    licence: str
    kind: str
    texts: tuple[Path, ...]
    purl: str | None = None
    sha256: str | None = None
    hash_of: str | None = None
    source: str | None = None


def components(inside: Path, modules: Collection[str], policy: Policy) -> list[Component]:
    """Every part of the folder `inside` and of the archived `modules`, by name.

    Raises LicenceError, a line for every part whose licence is not known or not allowed.
    """
    makers: list[Callable[[], Component]] = [
        *(partial(_distribution, found, policy) for found in _distributions(inside, modules)),
        *(partial(_inner, entry, policy) for entry in _inside(inside, policy)),
        *(partial(_library, library, policy) for library in _libraries(inside)),
        # Its loader begins every frozen program.
        *(partial(_distribution, found, policy) for found in metadata.distributions(name="pyinstaller")),
        partial(_python, policy),
        _font,
    ]
    found: dict[tuple[str, str], Component] = {}
    problems = []
    for make in makers:
        try:
            part = make()
        except LicenceError as error:
            problems.append(str(error))
        else:
            found.setdefault((part.kind, part.name), part)
    if problems:
        raise LicenceError("\n".join(dict.fromkeys(problems)))
    return sorted(found.values(), key=lambda part: (part.name.lower(), part.kind))


def archived_modules(program: Path) -> set[str]:
    """The modules in the archive of a program that PyInstaller made."""
    from PyInstaller.archive.readers import CArchiveReader

    archive = CArchiveReader(str(program))
    embedded = [archive.open_embedded_archive(entry) for entry in archive.toc if entry.endswith(".pyz")]
    return {name for modules in embedded for name in modules.toc}


def _distributions(inside: Path, modules: Collection[str]) -> Iterator[metadata.Distribution]:
    """Those of this environment of which any module or file is in the bundle."""
    there = {name.partition(".")[0] for name in modules} | {path.name.partition(".")[0] for path in inside.iterdir()}
    for found in metadata.distributions():
        if normal(found.name) not in _OURS and _top_names(found) & there:
            yield found


def _distribution(found: metadata.Distribution, policy: Policy) -> Component:
    licence = policy.of_distribution(found)
    return Component(
        found.name,
        found.version,
        licence,
        "Python distribution",
        texts_of(found, licence),
        f"pkg:pypi/{normal(found.name)}@{found.version}",
        hashlib.sha256((found.read_text("RECORD") or "").encode()).hexdigest(),
        "RECORD, which lists the hash of every file",
        _home(found),
    )


def _home(found: metadata.Distribution) -> str | None:
    """Where the distribution says its source is."""
    pages = dict(line.split(", ", 1) for line in found.metadata.get_all("Project-URL") or [] if ", " in line)
    by_name = {name.lower(): page for name, page in pages.items()}
    return next(
        (by_name[name] for name in ("source", "source code", "repository", "code", "homepage") if name in by_name),
        next(iter([*(found.metadata.get_all("Home-page") or []), *by_name.values()]), None),
    )


def _top_names(found: metadata.Distribution) -> set[str]:
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {name.partition(".")[0] for name in tops if not name.endswith((".dist-info", ".libs", ".pth"))}


def texts_of(found: metadata.Distribution, licence: str) -> tuple[Path, ...]:
    """The licence files of a distribution; else the texts of the licences it names. Raises LicenceError."""
    files = [
        Path(str(file.locate()))
        for file in found.files or ()
        if file.suffix not in (".py", ".pyc") and _TEXT_NAMES.search(file.name) and ".dist-info" in file.parts[0]
    ]
    there = tuple(path for path in files if path.is_file())
    return there or standard_texts(found.name, licence)


def standard_texts(name: str, licence: str) -> tuple[Path, ...]:
    """Our copies of the texts of an expression's licences."""
    texts: list[Path] = []
    for term in re.split(r"\s+(?:AND|OR)\s+", licence):
        path = HERE / "texts" / f"{term.partition(' WITH ')[0]}.txt"
        if not path.is_file():
            raise LicenceError(
                f"{name} brings no licence text, and there is none of {term} in packaging/licences/texts."
            )
        texts.append(path)
        if term.startswith("LGPL-3"):
            texts.append(HERE / "texts" / "GPL-3.0-only.txt")  # the LGPL refers to it
    return tuple(texts)


def _inside(inside: Path, policy: Policy) -> Iterator[dict[str, str]]:
    return (entry for entry in policy.inside if any(inside.glob(f"{entry['in']}*")))


def _inner(entry: dict[str, str], policy: Policy) -> Component:
    """What lies inside a distribution under terms of its own."""
    of = metadata.distribution(entry["distribution"])
    if entry["distribution"] == "av" and "+lgpl" not in of.version:
        raise LicenceError(
            "The bundle holds the FFmpeg of PyAV's own wheel, which links x264 and x265 (GPL); build with the wheel of "
            "packaging/ffmpeg/build.sh."
        )
    versions = built_versions()
    version = versions[entry["version_of"]] if "version_of" in entry else of.version
    return Component(
        entry["name"],
        version,
        policy.check(entry["name"], entry["licence"]),
        f"inside {entry['distribution']}",
        _texts_inside(entry),
        f"pkg:generic/{entry['name'].lower()}@{version}",
        versions.get(entry.get("sha256_of", "")),
        "the source archive",
        entry["source"],
    )


def _texts_inside(entry: dict[str, str]) -> tuple[Path, ...]:
    own = HERE / "texts" / f"{entry['name']}-COPYING.txt"
    return (own,) if own.is_file() else standard_texts(entry["name"], entry["licence"])


def built_versions() -> dict[str, str]:
    """The versions and hashes that packaging/ffmpeg/build.sh builds."""
    text = (HERE.parent / "ffmpeg" / "versions").read_text(encoding="utf-8")
    return dict(re.findall(r"^([A-Z0-9]+_(?:VERSION|SHA256))=(\S+)$", text, re.MULTILINE))


def _library(library: Path, policy: Policy) -> Component:
    """A library that was taken from the machine that built the bundle."""
    package = _owner(library)
    licence = policy.of_system(package)
    version = _said("dpkg-query", "-W", "-f=${Version}", package)
    text = Path("/usr/share/doc") / package / "copyright"
    return Component(
        package,
        version,
        licence,
        "system library",
        (text,) if text.is_file() else standard_texts(package, licence),
        f"pkg:deb/debian/{package}@{version}",
        hashlib.sha256(library.read_bytes()).hexdigest(),
        library.name,
        "https://sources.debian.org/",
    )


def _libraries(inside: Path) -> Iterable[Path]:
    """Those that no distribution brought; PyInstaller moves some of these up."""
    brought = {
        file.name for found in metadata.distributions() for file in found.files or () if file.parts[0].endswith(".libs")
    }
    found = (path for pattern in ("*.so*", "fallback/*.so*") for path in inside.glob(pattern))
    return sorted(
        path
        for path in found
        if path.is_file() and not path.is_symlink() and _is_shared(path) and path.name not in brought
    )


def _is_shared(path: Path) -> bool:
    """A library, neither Python's own nor an extension module of a distribution."""
    return path.name.startswith("lib") and not re.search(r"^libpython|\.cpython-|\.abi3\.", path.name)


def _owner(library: Path) -> str:
    """The Debian package that a library came from, found by where the loader finds one of its name."""
    known = _said("/sbin/ldconfig", "-p")
    places = re.findall(rf"^\s*{re.escape(library.name)} .*=> (.+)$", known, re.MULTILINE)
    for place in places:
        for path in dict.fromkeys((place, os.path.realpath(place), place.removeprefix("/usr"), f"/usr{place}")):
            owner = _said("dpkg", "-S", path).partition(":")[0]
            if owner:
                return owner
    raise LicenceError(f"{library.name}: no package of this machine owns it; say where it comes from or leave it out.")


def _said(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _python(policy: Policy) -> Component:
    text = Path(sysconfig.get_path("stdlib"), "LICENSE.txt")
    version = platform.python_version()
    return Component(
        "Python",
        version,
        policy.check("Python", "PSF-2.0"),
        "interpreter",
        (text,) if text.is_file() else standard_texts("Python", "PSF-2.0"),
        f"pkg:generic/python@{version}",
        source="https://www.python.org/downloads/source/",
    )


def _font() -> Component:
    root = HERE.parents[1]
    (font, *_) = sorted((root / "assets" / "fonts").glob("*.[ot]tf"))
    return Component(
        "Inter",
        "4",
        "OFL-1.1",
        "typeface",
        (root / "assets" / "fonts" / "OFL.txt",),
        "pkg:generic/inter",
        hashlib.sha256(font.read_bytes()).hexdigest(),
        font.name,
        "https://rsms.me/inter/",
    )
