"""Where a session lives until a person gives it a name."""

from __future__ import annotations

import itertools
import os
from datetime import UTC, datetime
from pathlib import Path

from evprof.core.files.user_folders import data_folder
from evprof.session.schema import SUFFIX


def autosave_folder() -> Path:
    """The folder of unnamed sessions in the user's data folder; it may not exist yet."""
    return data_folder() / "sessions"


def autosave_path() -> Path:
    """A new name in that folder: the moment in UTC and our process id."""
    stem = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{os.getpid()}"
    endings = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(path for ending in endings if not (path := autosave_folder() / f"{stem}{ending}{SUFFIX}").exists())
