"""Whether the process that writes a session still lives: its name tag in the file, and the check of one."""

from __future__ import annotations

import os
import socket
from typing import Any


def name_tag() -> dict[str, Any]:
    """Host, pid and start of this process; a pid alone may be given to another process later."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _start_of(os.getpid())}


def is_alive(tag: object) -> bool:
    """Whether the process of `tag` runs on this machine now. False for other hosts, gone processes, and no tag."""
    if not isinstance(tag, dict) or tag.get("host") != socket.gethostname():
        return False
    pid, started = tag.get("pid"), tag.get("started")
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 1 << 31 or started is None:
        return False
    return bool(_start_of(pid) == started)


def is_elsewhere(tag: object) -> bool:
    """Whether `tag` belongs to another machine, of whose processes nothing can be known here."""
    return isinstance(tag, dict) and bool(tag.get("host") != socket.gethostname())


def _start_of(pid: int) -> float | None:
    import psutil

    try:
        process = psutil.Process(pid)
        # A killed process that nobody has waited for writes no more.
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None
