"""A cluster that asks for a token is shown the user's: Ray's own commands show it, `ray.init` alone does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evprof.core.errors import UserError
from evprof.run.places import ray_cluster


@pytest.mark.parametrize(
    ("token", "mode", "shown"),
    [("file", None, "token"), ("variable", None, "token"), ("none", None, None), ("file", "disabled", "disabled")],
)
def test_the_users_token_is_shown(
    token: str, mode: str | None, shown: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    def no_ray() -> None:
        seen.append(os.environ.get("RAY_AUTH_MODE"))
        raise UserError("There is no Ray in this test.")

    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(ray_cluster, "_ray", no_ray)
    if token == "file":
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a" * 64)
    elif token == "variable":
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a" * 64)
    with pytest.raises(UserError, match="no Ray in this test"):
        ray_cluster.RayCluster("127.0.0.1:6379", print)
    assert seen == [shown]
    assert os.environ.get("RAY_AUTH_MODE") == mode
