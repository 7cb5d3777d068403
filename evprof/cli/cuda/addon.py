"""The CUDA add-on inside the frozen program: a folder `cuda` beside it, whose torch is imported in place of its own.

    evprof/evprof            the program
    evprof/_internal         what it was frozen with, a CPU torch among it
    evprof/cuda/addon.json   written last: which torch for which Python
    evprof/cuda/packages     the wheels, unpacked

Nothing of the program is changed, so taking the folder away brings the CPU torch back. An add-on of another torch or
Python than the program's, left there by an upgrade, is not used.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

from evprof.cli.cuda.wheels import Wheel, WheelList, opened, running_python
from evprof.core.errors import UserError
from evprof.core.units import bytes_text

FOLDER, MARK, PACKAGES = "cuda", "addon.json", "packages"

_SPARE_BYTES = 200_000_000
"""What is left free on the disk."""


def bundle_folder() -> Path | None:
    """The folder of the frozen program; None for any other installation."""
    return Path(sys.executable).resolve().parent if getattr(sys, "frozen", False) else None


def packages_folder(bundle: Path) -> Path | None:
    """Where the add-on's packages are, if it is whole and belongs to this program."""
    return bundle / FOLDER / PACKAGES if mark_of(bundle) == _wanted_mark(bundle) else None


def mark_of(bundle: Path) -> dict[str, str] | None:
    """What the add-on says it is; None where there is none, or an unfinished one."""
    try:
        found = json.loads((bundle / FOLDER / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _wanted_mark(bundle: Path) -> dict[str, str] | None:
    """The add-on that belongs to the program, told by the torch that was frozen with it."""
    inside = Path(getattr(sys, "_MEIPASS", bundle / "_internal"))
    for folder in inside.glob("torch-*.dist-info"):
        return {"torch": folder.name.split("-")[1].split("+")[0], "python": running_python()}
    return None


def install(
    folder: Path, bundle: Path, wheels: WheelList, say: Callable[[str], None], *, spare_bytes: int = _SPARE_BYTES
) -> None:
    """Unpacks the wheels of `folder` into the program's; the one that was there is replaced when all are unpacked.

    Raises UserError for wheels that are missing or damaged, a full disk, or a place that may not be written.
    """
    chosen = wheels.for_python(running_python())
    unfinished, target = bundle / f"{FOLDER}.unfinished", bundle / FOLDER
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        (unfinished / PACKAGES).mkdir(parents=True)
        with ExitStack() as stack:
            archives = _archives(folder, chosen, stack, say)
            needed = sum(entry.file_size for archive in archives for entry in archive.infolist()) + spare_bytes
            if (free := shutil.disk_usage(bundle).free) < needed:
                raise UserError(
                    f"{bundle}: {bytes_text(free)} are free and {bytes_text(needed)} are needed; make room there."
                )
            for number, (wheel, archive) in enumerate(zip(chosen, archives, strict=True), 1):
                say(f"[{number}/{len(chosen)}] {wheel.package} {wheel.version}")
                unpack(archive, unfinished / PACKAGES)
        mark = {"torch": wheels.torch, "python": running_python()}
        (unfinished / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")
        remove(bundle)
        unfinished.rename(target)
    except OSError as error:
        raise UserError(f"{bundle}: cannot be written ({error.strerror}); {_ADVICE}.") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


_ADVICE = "run the command as who installed evprof, for the system's with sudo"


def _archives(
    folder: Path, wheels: Sequence[Wheel], stack: ExitStack, say: Callable[[str], None]
) -> list[zipfile.ZipFile]:
    say("Checking the files of the add-on.")
    try:
        return [stack.enter_context(zipfile.ZipFile(stack.enter_context(opened(folder, wheel)))) for wheel in wheels]
    except zipfile.BadZipFile as error:
        raise UserError(f"{folder}: holds a file that is no wheel ({error}); copy the CUDA add-on again.") from None


def unpack(archive: zipfile.ZipFile, packages: Path) -> None:
    """One wheel as pip would unpack it; scripts and headers are left out. Raises UserError for names that lead away."""
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


def remove(bundle: Path) -> bool:
    """Takes the add-on away; whether there was one. A program that runs keeps what it has open. Raises UserError."""
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
