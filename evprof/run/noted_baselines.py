"""Notes in a session, with every run that drafts, which plain runs it is weighed against."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from evprof.core.errors import UserError
from evprof.metrics.configurations.baselines import choose_baselines
from evprof.session.store import Commit, SessionFile


def note_baselines(path: Path, made: Collection[int] | None = None) -> None:
    """Stores the baselines of the runs `made` (default: of all) in a session that nobody writes at present.

    Raises UserError when it cannot be written.
    """
    file = SessionFile(path)
    try:
        infos = file.infos()
        chosen = choose_baselines(infos, made)
        changed = [info for info in infos if chosen.get(info.run_id, info.baseline) != info.baseline]
        for info in changed:
            info.baseline = chosen[info.run_id]
        if changed:
            file.commit({}, Commit(infos=changed))
    except (sqlite3.Error, ValueError) as error:
        raise UserError(f"The baselines of {path} cannot be noted: {error}.") from error
    finally:
        file.close()
