"""The folder of a suite: fit for a new one, or one to go on with."""

from __future__ import annotations

from pathlib import Path

from evprof.core.errors import UserError
from evprof.run.works.offers import SUITE_SESSION
from evprof.session.presence import ENDING

FRAMES_FOLDER = "event-frames"
"""Below a suite's folder: drawn for cells whose video model is to see the events."""


def check_folder(folder: Path, *, resumes: bool) -> None:
    """Raises UserError for a folder that holds something and is not to be resumed, and for one with nothing to resume.

    Nothing is made.
    """
    is_begun = _is_begun(folder, folder / SUITE_SESSION)
    if resumes:
        if not is_begun:
            raise UserError(
                f"--resume: there is no suite in '{folder}' to go on with; leave --resume out to begin one."
            )
    elif folder.is_file():
        raise UserError(f"-o: '{folder}' is a file; name a folder.")
    elif folder.is_dir() and any(folder.iterdir()):
        way = "add --resume to go on with it, or name" if is_begun else "name"
        raise UserError(f"-o: '{folder}' is there already and not empty; {way} a new folder.")


def made_folder(folder: Path, *, resumes: bool) -> Path:
    """The session's path below `folder`, which is made unless a suite there is continued. Raises UserError as
    `check_folder` does, and where it cannot be made."""
    check_folder(folder, resumes=resumes)
    path = folder / SUITE_SESSION
    if resumes:
        if not path.is_file() or not path.stat().st_size:
            _clear(path)
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"-o: '{folder}' cannot be made ({error.strerror or error}); choose another place.") from None
    return path


def _is_begun(folder: Path, path: Path) -> bool:
    """Whether a suite was begun there, be it that it was killed before its session had a first byte."""
    if path.is_file() and path.stat().st_size:
        return True
    return folder.is_dir() and {*folder.iterdir()} <= {*_files_of(path), folder / FRAMES_FOLDER}


def _clear(path: Path) -> None:
    """Takes away a session without a byte, and what SQLite keeps beside it."""
    for left in _files_of(path):
        left.unlink(missing_ok=True)


def _files_of(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in ("", "-journal", "-wal", "-shm", ENDING)]
