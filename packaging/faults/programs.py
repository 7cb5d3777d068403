"""The programs that are killed, each begun in a fork of a process that has imported everything already.

What they do is what `evprof run`, `evprof suite` and the window do; that their imports took no time lets a kill hit
work and not imports.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import tempfile
from importlib import import_module
from pathlib import Path

ENGINE = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from faults.appended import keep_diary_of_engine
keep_diary_of_engine(Path({diary!r}))
from evprof.cli import main
raise SystemExit(main(["_engine"]))
"""


_IMPORTED = (
    "engines.start",
    "engines.modes.parallel_run",
    "engines.modes.plain_run",
    "engines.modes.speculative_run",
    "evprof.cli.run.recorded_session",
    "evprof.export.report.writing",
    "evprof.run.suites.suite",
    "ui.window.main_window",
)


def preload() -> None:
    """Imports what the programs need, without a thread and without a window."""
    import torch

    torch.set_num_threads(1)
    for module in _IMPORTED:
        import_module(module)


def begin(program: str, folder: Path) -> int:
    """Forks `program` to work in `folder`; its process id. Its session is found by `sessions_of`."""
    child = os.fork()
    if child:
        return child
    os.setsid()
    _end_with_parent()
    _enter(folder)
    code = 1
    try:
        code = {"run": _run, "suite": _suite, "window": _window, "engine": _window}[program](folder)
    finally:
        os._exit(code)


def sessions_of(folder: Path) -> list[Path]:
    """Where its sessions are, if there are any yet."""
    return sorted({*folder.glob("work/**/*.evprof"), *folder.glob("home/**/*.evprof")})


def _end_with_parent() -> None:
    """A harness that is itself ended must leave no window behind that runs demos for ever."""
    PR_SET_PDEATHSIG = 1  # the kernel's own name
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _enter(folder: Path) -> None:
    for name in ("tmp", "home", "work"):
        (folder / name).mkdir()
    os.environ |= {"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), "EVPROF_FAULTS": str(folder)}
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        os.environ.pop(variable, None)
    tempfile.tempdir = None
    os.chdir(folder / "work")
    said = os.open(folder / "said", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(said, number)


def _command(folder: Path, *words: str) -> int:
    from evprof.cli import main
    from faults.appended import keep_diary_of_logs

    keep_diary_of_logs(folder / "diary")
    return main(words)


def _run(folder: Path) -> int:
    mode = ("side-by-side", "speculative", "parallel-prefill")[int(folder.name.rpartition("-")[2]) % 3]
    words = ("--max-new-tokens", "300", "--ignore-eos", "--repeat", "200", "-o", "s.evprof")
    return _command(folder, "run", "--mode", mode, *words)


def _suite(folder: Path) -> int:
    from evprof.cli.suite import command

    # Ceilings take longer to measure than a killed suite lives.
    command.machine_facts = lambda *_: {}
    command.pair_facts = lambda *_: {}
    words = ("--max-new-tokens", "40", "--ignore-eos", "--repeat", "200", "-o", "suite")
    return _command(folder, "suite", "stages", *words)


def _window(folder: Path) -> int:
    from faults.appended import keep_diary_of_logs
    from faults.windows import run_demos

    keep_diary_of_logs(folder / "diary")
    script = ENGINE.format(path=sys.path, diary=str(folder / "engine-diary"))
    return run_demos([sys.executable, "-c", script])
