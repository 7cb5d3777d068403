"""The CUDA add-on: a folder of wheels that brings NVIDIA GPUs to the frozen program, offline.

The program gets a folder `cuda` beside it:

    evprof/evprof            the program
    evprof/_internal         what it was frozen with, a CPU torch among it
    evprof/cuda/addon.json   written last: which torch for which Python
    evprof/cuda/packages     the wheels, unpacked; torch is imported from here

Nothing of the program is changed, so removing the folder brings the CPU torch back. An add-on of another torch or
Python than the program's, left there by an upgrade, is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evprof.core.errors import UserError
from evprof.core.plain import Plain
from evprof.core.units import bytes_text

FOLDER, MARK, PACKAGES = "cuda", "addon.json", "packages"

_SPARE_BYTES = 200_000_000
"""What is left free on the disk."""

_ADVICE = "run the command as who installed evprof, for the system's with sudo"


@dataclass(frozen=True)
class Wheel(Plain):
    """One file of the list. `python`: the only version it is for, such as 3.12; None: any."""

    package: str
    version: str
    file: str
    size: int
    sha256: str
    python: str | None = None


@dataclass(frozen=True)
class WheelList(Plain):
    """The add-on of this version of evprof: torch for `cuda`, and the libraries that it needs beside it."""

    torch: str
    cuda: str
    wheels: tuple[Wheel, ...]

    def for_python(self, version: str) -> tuple[Wheel, ...]:
        """Those of one Python, such as 3.12. Raises UserError where there are none."""
        if version not in {wheel.python for wheel in self.wheels}:
            known = ", ".join(sorted({wheel.python for wheel in self.wheels if wheel.python}))
            raise UserError(f"The CUDA add-on is made for Python {known}, and this is {version}.")
        return tuple(wheel for wheel in self.wheels if wheel.python in (None, version))


def locked_wheels() -> WheelList:
    """The list that belongs to this version of evprof. Raises UserError on other machines than it is made for."""
    import assets

    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UserError("The CUDA add-on is made for Linux on x86-64 only.")
    path = Path(assets.__file__).with_name("cuda") / "wheels.json"
    return WheelList.from_json(json.loads(path.read_text(encoding="utf-8")))


def running_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def checked(folder: Path, wheel: Wheel) -> Path:
    """A wheel of the folder. Raises UserError for one that is missing, unfinished or another file than the list's."""
    path = folder / wheel.file
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise UserError(f"{folder}: {wheel.file} is not there; copy the whole folder of the CUDA add-on.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); copy it again.") from None
    if digest != wheel.sha256:
        raise UserError(f"{folder}: {wheel.file} is damaged or another file; copy the CUDA add-on again.")
    return path


def bundle_folder() -> Path | None:
    """The folder of the frozen program; None for any other installation."""
    return Path(sys.executable).resolve().parent if getattr(sys, "frozen", False) else None


def packages_folder(bundle: Path) -> Path | None:
    """Where the add-on's packages are, if it is complete and belongs to this program."""
    try:
        mark = json.loads((bundle / FOLDER / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return bundle / FOLDER / PACKAGES if mark == _wanted_mark(bundle) else None


def _wanted_mark(bundle: Path) -> dict[str, str] | None:
    """The add-on that belongs to the program, by the torch that was frozen with it."""
    inside = Path(getattr(sys, "_MEIPASS", bundle / "_internal"))
    for folder in inside.glob("torch-*.dist-info"):
        return {"torch": folder.name.split("-")[1].split("+")[0], "python": running_python()}
    return None


def install(folder: Path, say: Callable[[str], None], wheels: WheelList | None = None) -> None:
    """Installs the wheels of `folder`. Raises UserError for missing or damaged files, and where nothing can be written;
    then nothing has changed."""
    if not folder.is_dir():
        raise UserError(f"There is no folder '{folder}'; give the folder evprof-cuda that holds the wheels.")
    bundle = bundle_folder()
    if bundle is None:
        raise UserError(
            "This installation is an environment of pip: "
            f"pip install --no-index --no-deps --force-reinstall {folder}/*.whl"
        )
    wheels = wheels or locked_wheels()
    say("Checking the files of the add-on.")
    paths = [checked(folder, wheel) for wheel in wheels.for_python(running_python())]
    install_in_bundle(paths, bundle, {"torch": wheels.torch, "python": running_python()}, say)


def install_in_bundle(
    paths: Sequence[Path],
    bundle: Path,
    mark: dict[str, str],
    say: Callable[[str], None],
    *,
    spare_bytes: int = _SPARE_BYTES,
) -> None:
    """Unpacks wheels beside the program; an older add-on is replaced when all are unpacked. Raises UserError."""
    unfinished = bundle / f"{FOLDER}.unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        (unfinished / PACKAGES).mkdir(parents=True)
        needed = sum(_unpacked_bytes(path) for path in paths) + spare_bytes
        if (free := shutil.disk_usage(bundle).free) < needed:
            raise UserError(
                f"{bundle}: {bytes_text(free)} are free and {bytes_text(needed)} are needed; make room there."
            )
        for number, path in enumerate(paths, 1):
            say(f"[{number}/{len(paths)}] {path.name}")
            with zipfile.ZipFile(path) as archive:
                unpack(archive, unfinished / PACKAGES)
        (unfinished / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
        remove(bundle)
        unfinished.rename(bundle / FOLDER)
    except OSError as error:
        raise UserError(f"{bundle}: cannot be written ({error.strerror}); {_ADVICE}.") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unpacked_bytes(path: Path) -> int:
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise UserError(f"{path}: is no wheel ({error}); copy the CUDA add-on again.") from None


def unpack(archive: zipfile.ZipFile, packages: Path) -> None:
    """One wheel as pip would unpack it, without scripts and headers. Raises UserError for names that lead away."""
    for entry in archive.infolist():
        place = PurePosixPath(entry.filename)
        if place.is_absolute() or ".." in place.parts or "\\" in entry.filename or not place.parts:
            raise UserError(f"A wheel of the CUDA add-on holds the name {entry.filename!r}, which leads elsewhere.")
        if place.parts[0].endswith(".data"):
            if len(place.parts) < 3 or place.parts[1] not in ("purelib", "platlib"):
                continue
            place = PurePosixPath(*place.parts[2:])
        target = packages / place
        if entry.is_dir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        if entry.external_attr >> 16 & stat.S_IXUSR:
            target.chmod(0o755)


def remove(bundle: Path | None) -> bool:
    """Removes the add-on; whether there was one. A running program keeps what it has open. Raises UserError."""
    if bundle is None:
        raise UserError("This installation is an environment of pip: install a torch for CPUs with pip.")
    target, going = bundle / FOLDER, bundle / f"{FOLDER}.going"
    try:
        shutil.rmtree(going, ignore_errors=True)
        if not target.exists():
            return False
        os.rename(target, going)
    except OSError as error:
        raise UserError(f"{target}: cannot be removed ({error.strerror}); {_ADVICE}.") from None
    shutil.rmtree(going, ignore_errors=True)
    return True
