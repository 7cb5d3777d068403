"""evprof: a visual profiler for event-camera and video language models.

For scripts and notebooks: `open` reads a session, `profile` runs a pair and gives its session. Both are described with
examples in docs/python.md, which also says what of this stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evprof.version import __version__

if TYPE_CHECKING:
    import os

    from evprof.core.errors import UserError
    from evprof.notebook.session import Run, Session
    from evprof.notebook.tables import DataTable

__all__ = ["DataTable", "Run", "Session", "UserError", "__version__", "open", "profile"]


def open(session: str | os.PathLike[str]) -> Session:
    """Reads a session file (`.evprof`), without ever writing to it.

    Raises UserError, with a sentence that a person can act on, when it is missing, foreign, newer or damaged.
    """
    from pathlib import Path

    from evprof.notebook.session import Session

    return Session.read(Path(session))


def profile(
    *,
    events: str | os.PathLike[str] | None = None,
    video: str | os.PathLike[str] | None = None,
    prompt: str | None = None,
    mode: str | None = None,
    draft: str | None = None,
    target: str | None = None,
    output: str | os.PathLike[str] | None = None,
    in_process: bool = False,
    quiet: bool = False,
    **settings: str | float | bool | os.PathLike[str] | None,
) -> Session:
    """Runs models on a sample as `evprof run` does, and returns the session with what was measured.

    `settings` are the options of `evprof run` by name, such as `max_new_tokens=64`, `gamma=4`, `target_quant="nf4"` or
    `repeat=5`, checked as the command checks them. Without inputs the bundled sample is taken, without models the
    bundled pair.

    `output`: the session to write or to append to; without it a temporary one, which goes when the session is closed
    or forgotten (`Session.save` keeps it). The models live in a process of their own, which leaves this one free of
    torch, unless `in_process`. `quiet`: no progress on standard error.

    The first Ctrl-C (or a notebook's Interrupt) stops the run and keeps what was measured: its status is "cancelled".
    The second one raises KeyboardInterrupt. A run that failed says so by its `status` and `error`, or by
    `Session.raise_for_status`. Raises UserError for what cannot be carried out, TypeError for a setting nobody knows.
    """
    from pathlib import Path

    from evprof.notebook.profiling import profile

    asked = {"events": events, "video": video, "prompt": prompt, "mode": mode, "draft": draft, "target": target}
    place = None if output is None else Path(output)
    return profile(asked | settings, place, in_process=in_process, quiet=quiet)


if not TYPE_CHECKING:  # a checker is to see a slip in a name

    def __getattr__(name: str) -> Any:
        """The classes, imported when they are first named."""
        if name == "UserError":
            from evprof.core.errors import UserError

            return UserError
        if name == "DataTable":
            from evprof.notebook.tables import DataTable

            return DataTable
        if name in ("Run", "Session"):
            from evprof.notebook.session import Run, Session

            return {"Run": Run, "Session": Session}[name]
        raise AttributeError(f"module 'evprof' has no attribute '{name}'")
