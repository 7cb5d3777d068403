"""Folders of the user, as each system's custom has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from evprof.core.files.user_folders import cache_folder, data_folder, log_folder

VARIABLES = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "LOCALAPPDATA")


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("system", "cache", "data", "log"),
    [
        ("linux", ".cache/evprof", ".local/share/evprof", ".local/state/evprof/log"),
        ("darwin", "Library/Caches/evprof", "Library/Application Support/evprof", "Library/Logs/evprof"),
        ("win32", "AppData/Local/evprof/Cache", "AppData/Local/evprof", "AppData/Local/evprof/Logs"),
    ],
)
def test_each_system_has_its_own(monkeypatch: pytest.MonkeyPatch, system: str, cache: str, data: str, log: str) -> None:
    monkeypatch.setattr("sys.platform", system)
    home = Path("/home/ada")
    assert (cache_folder(), data_folder(), log_folder()) == (home / cache, home / data, home / log)


def test_variables_move_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in VARIABLES:
        monkeypatch.setenv(name, f"/srv/{name}")
    assert cache_folder() == Path("/srv/XDG_CACHE_HOME/evprof")
    assert data_folder() == Path("/srv/XDG_DATA_HOME/evprof")
    assert log_folder() == Path("/srv/XDG_STATE_HOME/evprof/log")
    # The custom has it that relative paths do not count.
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_folder() == Path("/home/ada/.cache/evprof")
    monkeypatch.setattr("sys.platform", "win32")
    assert cache_folder() == Path("/srv/LOCALAPPDATA/evprof/Cache")
