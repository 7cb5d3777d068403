"""Whether a window can open here, tried before Qt tries: where it cannot, Qt ends the whole program.

A display is asked for in the order in which Qt would: the libraries of its platform plugin must load, and somebody must
answer where the variable points. Where only the second choice works, Qt is told to take it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

INVISIBLE_PLATFORMS = ("offscreen", "minimal", "vnc")

WAYLAND, XCB = "wayland", "xcb"

ANSWER_TIMEOUT_S = 5.0
"""A display on another machine may take a while; one that hangs is as good as none."""

_OF_QT = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libX11.so.6": "libx11-6",
}
LIBRARIES: dict[str, dict[str, str]] = {
    "": _OF_QT,
    WAYLAND: {
        "libwayland-client.so.0": "libwayland-client0",
        "libwayland-cursor.so.0": "libwayland-cursor0",
    },
    XCB: {
        "libX11-xcb.so.1": "libx11-xcb1",
        "libxcb.so.1": "libxcb1",
        "libxcb-cursor.so.0": "libxcb-cursor0",
        "libxcb-icccm.so.4": "libxcb-icccm4",
        "libxcb-image.so.0": "libxcb-image0",
        "libxcb-keysyms.so.1": "libxcb-keysyms1",
        "libxcb-randr.so.0": "libxcb-randr0",
        "libxcb-render.so.0": "libxcb-render0",
        "libxcb-render-util.so.0": "libxcb-render-util0",
        "libxcb-shape.so.0": "libxcb-shape0",
        "libxcb-shm.so.0": "libxcb-shm0",
        "libxcb-sync.so.1": "libxcb-sync1",
        "libxcb-util.so.1": "libxcb-util1",
        "libxcb-xfixes.so.0": "libxcb-xfixes0",
        "libxcb-xkb.so.1": "libxcb-xkb1",
        "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    },
}
"""Shared libraries that Qt needs (""), and those of its two platforms, with the Debian packages that hold them."""


@dataclass(frozen=True)
class Display:
    """What was found: the platform that Qt must be told to take ("": its own choice), or one sentence why none works.

    `fix` is what to do about it.
    """

    platform: str = ""
    problem: str = ""
    fix: str = ""


def find_display(
    environment: Mapping[str, str] | None = None,
    system: str = sys.platform,
    missing: Callable[[str], list[str]] | None = None,
) -> Display:
    """Tries what Qt would try; `missing` names the libraries that a platform lacks.

    `QT_QPA_PLATFORM` naming a platform that draws nowhere counts as having no display.
    """
    variables = os.environ if environment is None else environment
    asked = [word.partition(":")[0] for word in variables.get("QT_QPA_PLATFORM", "").split(";") if word]
    if asked and asked[0] in INVISIBLE_PLATFORMS:
        return Display(problem=f"QT_QPA_PLATFORM={asked[0]} draws where nobody sees it.", fix="unset QT_QPA_PLATFORM")
    if system in ("win32", "darwin") or (asked and asked[0] not in (WAYLAND, "wayland-egl", XCB)):
        return Display()
    lacking = missing or missing_libraries
    found = [_try(name, variables, lacking) for name in asked or _usual(variables)]
    if not found:
        return _nothing_set(variables)
    works = [name for name, problem in found if problem is None]
    if works:
        return Display("" if works[0] == found[0][0] else works[0])
    problems = [problem for _, problem in found if problem is not None]
    return Display("", " ".join(each.problem for each in problems), "; ".join(each.fix for each in problems))


def missing_display(environment: Mapping[str, str] | None = None, platform: str = sys.platform) -> str | None:
    """One sentence saying why no window can be seen; None when one can."""
    return find_display(environment, platform).problem or None


def missing_libraries(platform: str) -> list[str]:
    """The shared libraries of Qt and of its platform that this machine lacks."""
    return [name for name in (*LIBRARIES[""], *LIBRARIES[platform]) if not _loads(name)]


def install_command(libraries: Iterable[str], os_release: Path = Path("/etc/os-release")) -> str:
    """How these libraries come onto this machine; their names alone where its packages are not Debian's."""
    known = {name: package for group in LIBRARIES.values() for name, package in group.items()}
    if not _is_debian(os_release):
        return f"install {', '.join(libraries)} with your system's packages"
    packages = sorted({known[name] for name in libraries})
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    return f"{sudo}apt install {' '.join(packages)}"


def _usual(variables: Mapping[str, str]) -> list[str]:
    """Qt's own order."""
    is_wayland = variables.get("WAYLAND_DISPLAY") or variables.get("XDG_SESSION_TYPE") == WAYLAND
    return [*([WAYLAND] if is_wayland else []), *([XCB] if variables.get("DISPLAY") else [])]


def _try(asked: str, variables: Mapping[str, str], missing: Callable[[str], list[str]]) -> tuple[str, Display | None]:
    """A platform, and why it does not work here."""
    name = WAYLAND if asked.startswith(WAYLAND) else XCB
    if lacking := missing(name):
        these = "this library" if len(lacking) == 1 else "these libraries"
        sentence = f"Qt needs {these} to open a window by {name}: {', '.join(lacking)}."
        return name, Display(problem=sentence, fix=install_command(lacking))
    if name == WAYLAND:
        return name, _wayland_problem(variables)
    return name, _x_problem(variables.get("DISPLAY", ""), variables)


def _nothing_set(variables: Mapping[str, str]) -> Display:
    sentence = "this machine has no display (neither DISPLAY nor WAYLAND_DISPLAY is set)."
    return Display(problem=sentence, fix=_way_out(variables))


def _way_out(variables: Mapping[str, str]) -> str:
    far = "log in again with ssh -X, or " if variables.get("SSH_CONNECTION") else ""
    return f"{far}run without a window: evprof demo --headless"


def _wayland_problem(variables: Mapping[str, str]) -> Display | None:
    name = variables.get("WAYLAND_DISPLAY") or "wayland-0"
    place = Path(variables.get("XDG_RUNTIME_DIR", "")) / name
    if not place.is_absolute():
        return Display(problem="XDG_RUNTIME_DIR is not set, so no Wayland display is found.", fix=_way_out(variables))
    reason = _refusal(socket.AF_UNIX, str(place))
    if reason is None:
        return None
    return Display(problem=f"WAYLAND_DISPLAY={name} does not answer ({reason}).", fix=_way_out(variables))


def _x_problem(display: str, variables: Mapping[str, str]) -> Display | None:
    reason = _x_refusal(display)
    if reason is None:
        return None
    return Display(problem=f"DISPLAY={display} does not answer ({reason}).", fix=_way_out(variables))


def _x_refusal(display: str) -> str | None:
    """Why nobody answers at an X display; None when somebody does. Waits a few seconds at most."""
    match = re.fullmatch(r"(?:[a-z]+/)?(.*):(\d{1,5})(?:\.\d+)?", display)
    if match is None:
        return "it names no display"
    host, number = match[1], int(match[2])
    if host in ("", "unix"):
        path = f"/tmp/.X11-unix/X{number}"
        reason = _refusal(socket.AF_UNIX, path)
        if reason is not None and _refusal(socket.AF_UNIX, f"\0{path}") is not None:
            return reason
    elif (reason := _refusal(socket.AF_INET, (host, 6000 + number))) is not None:
        return reason
    return _xcb_refusal(display)


def _xcb_refusal(display: str) -> str | None:
    """What X's own library says, which knows the cookies that let a person in; None also where it is not there."""
    answers: list[str | None] = []

    def connect() -> None:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL("libxcb.so.1")
            library.xcb_connect.restype = ctypes.c_void_p
            connection = ctypes.c_void_p(library.xcb_connect(display.encode(), None))
            failed = library.xcb_connection_has_error(connection)
            library.xcb_disconnect(connection)
            answers.append("it lets nobody in without the right cookie" if failed else None)

    thread = threading.Thread(target=connect, name="evprof-display", daemon=True)
    thread.start()
    thread.join(ANSWER_TIMEOUT_S)
    if thread.is_alive():
        return f"nothing came back in {ANSWER_TIMEOUT_S:g} s"
    return answers[0] if answers else None


def _refusal(family: socket.AddressFamily, address: str | tuple[str, int]) -> str | None:
    """Why a connection cannot be made; None when it can."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(address)
    except TimeoutError:
        return f"nothing came back in {ANSWER_TIMEOUT_S:g} s"
    except (OSError, UnicodeError, ValueError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return None


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _is_debian(os_release: Path) -> bool:
    try:
        text = os_release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(
        "debian" in line or "ubuntu" in line
        for line in text.lower().splitlines()
        if line.startswith(("id=", "id_like="))
    )
