"""Whether a window can open is known before Qt, which ends the program where it cannot."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from evprof.cli.terminal import display
from evprof.cli.terminal.display import (
    LIBRARIES,
    WAYLAND,
    XCB,
    find_display,
    install_command,
    missing_display,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="X and Wayland are Linux's")


def none_missing(platform: str) -> list[str]:
    """A machine with every library."""
    return []


@pytest.fixture
def wayland(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Wayland display that accepts connections, and the variables that lead to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(tmp_path / "wayland-7"))
        server.listen()
        yield {"WAYLAND_DISPLAY": "wayland-7", "XDG_RUNTIME_DIR": str(tmp_path)}


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "no display"),
        ({"DISPLAY": ":4321"}, "DISPLAY=:4321 does not answer"),
        ({"DISPLAY": ":4321.0"}, "does not answer"),
        ({"DISPLAY": "127.0.0.1:59000"}, "does not answer"),
        ({"DISPLAY": "nonsense"}, "names no display"),
        ({"DISPLAY": ":99999"}, "does not answer"),
        ({"WAYLAND_DISPLAY": "wayland-4321", "XDG_RUNTIME_DIR": "/nowhere"}, "WAYLAND_DISPLAY=wayland-4321"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "XDG_RUNTIME_DIR is not set"),
        ({"XDG_SESSION_TYPE": "wayland", "XDG_RUNTIME_DIR": "/nowhere"}, "wayland-0 does not answer"),
        ({"QT_QPA_PLATFORM": "offscreen", "DISPLAY": ":0"}, "draws where nobody sees it"),
        ({"QT_QPA_PLATFORM": "xcb", "DISPLAY": ":4321"}, "DISPLAY=:4321 does not answer"),
    ],
)
def test_a_display_that_does_not_answer_is_a_sentence(variables, sentence) -> None:
    found = find_display(variables, missing=none_missing)
    assert sentence in found.problem
    assert found.fix
    assert not found.platform


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems_have_a_display(system: str) -> None:
    assert find_display({}, system) == display.Display()


def test_a_display_that_answers_is_taken(wayland) -> None:
    assert find_display(wayland, missing=none_missing) == display.Display()


def test_a_missing_library_is_named_with_its_package(wayland) -> None:
    found = find_display(wayland, missing=lambda _: ["libwayland-cursor.so.0"])
    assert "libwayland-cursor.so.0" in found.problem
    assert "libwayland-cursor" in found.fix


def test_where_wayland_does_not_work_x_is_taken(wayland, monkeypatch) -> None:
    monkeypatch.setattr(display, "_x_refusal", lambda _: None)
    both = wayland | {"DISPLAY": ":0"}
    lacking = find_display(both, missing=lambda name: ["libwayland-cursor.so.0"] if name == WAYLAND else [])
    assert lacking == display.Display(platform=XCB)
    dead = find_display(both | {"WAYLAND_DISPLAY": "gone"}, missing=none_missing)
    assert dead == display.Display(platform=XCB)
    assert find_display(both, missing=none_missing) == display.Display()


def test_a_person_far_away_is_told_of_ssh() -> None:
    assert "ssh -X" in find_display({"SSH_CONNECTION": "1 2 3 4"}).fix
    assert "ssh" not in find_display({}).fix


@pytest.mark.parametrize(
    ("release", "is_debian"),
    [("ID=debian\n", True), ("ID=linuxmint\nID_LIKE=ubuntu\n", True), ("ID=fedora\n", False), ("", False)],
)
def test_apt_is_named_where_there_is_apt(tmp_path: Path, release: str, is_debian: bool) -> None:
    (tmp_path / "os-release").write_text(release)
    found = install_command(["libwayland-cursor.so.0"], tmp_path / "os-release")
    assert ("apt install libwayland-cursor0" in found) == is_debian
    assert is_debian or "libwayland-cursor.so.0" in found


def needed(library: Path) -> set[str]:
    """The shared libraries that one asks for, its own kind followed."""
    listed = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, timeout=60, check=True)
    names = {line.split("[")[1].rstrip("]") for line in listed.stdout.splitlines() if "(NEEDED)" in line}
    own = {name for name in names if name.startswith("libQt6")}
    return (names - own).union(
        *(needed(library.parents[2] / "lib" / name) for name in own if "plugins" in str(library))
    )


@pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")
@pytest.mark.parametrize(("platform", "plugin"), [(WAYLAND, "libqwayland.so"), (XCB, "libqxcb.so")])
def test_the_list_of_libraries_is_that_of_qts_plugins(platform: str, plugin: str) -> None:
    found = find_spec("PySide6")
    if found is None or not found.submodule_search_locations:
        pytest.skip("PySide6 is not installed")
    path = Path(found.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms" / plugin
    everywhere = ("libc.", "libm.", "libstdc++", "libgcc_s", "ld-linux", "libz.", "libicu", "libzstd")
    wanted = {name for name in needed(path) if not name.startswith(everywhere)}
    assert wanted <= {*LIBRARIES[""], *LIBRARIES[platform]}


def test_the_window_is_refused_before_qt_is_loaded(evprof, monkeypatch) -> None:
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    monkeypatch.setenv("DISPLAY", ":4321")
    for words in ([], ["gui"]):
        found = evprof(*words)
        assert (found.code, len(found.errors.splitlines())) == (1, 1)
        assert "DISPLAY=:4321 does not answer" in found.errors or "Qt needs" in found.errors
        assert "demo --headless" in found.errors or "install" in found.errors


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="Xvfb is not installed")
def test_a_real_x_display_answers() -> None:
    server = subprocess.Popen(["Xvfb", "-displayfd", "1", "-nolisten", "tcp"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        number = server.stdout.readline().strip()
        assert missing_display({"DISPLAY": f":{number}"}) is None
    finally:
        server.terminate()
        server.wait(30)
        if server.stdout is not None:
            server.stdout.close()
