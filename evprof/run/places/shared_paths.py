"""Folders and inputs that all machines of a cluster see under one path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.run.places.inputs import INPUT_PATHS


def check_seen(cluster: Any, slots: Sequence[Any], folder: Path) -> None:
    """Raises UserError where a machine of the cluster does not see a folder of this one."""
    machines = cluster.elsewhere(slots)
    if not machines:
        return
    mark = folder / f".evprof-{uuid4().hex}.part"
    mark.touch()
    try:
        for slot in machines:
            if not cluster.ask(slot, is_file, str(mark.absolute())):
                raise UserError(
                    f"{slot.host} does not see the folder {folder}; give -o a folder that all machines see under "
                    "one path."
                )
    finally:
        mark.unlink()


def is_file(path: str) -> bool:
    """Whether a machine sees a file."""
    return Path(path).is_file()


def anywhere(sample: Sample) -> Sample:
    """The sample with whole paths: a worker may have been started in another folder."""
    paths: dict[str, Any] = {
        name: os.path.abspath(path) for name in INPUT_PATHS if (path := getattr(sample, name)) is not None
    }
    return replace(sample, **paths)
