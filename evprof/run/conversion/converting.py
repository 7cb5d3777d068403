"""Carries out one conversion: opens the source, hands its pieces to the writer, and says what came of it.

Which writer takes which pieces is decided here; what the pieces are is `event_source` and `video_source`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import part_of
from evprof.loaders.paths import reason
from evprof.loaders.writers.frames import is_ours
from evprof.run.conversion.recipe import FRAMES, MP4
from evprof.run.conversion.step import Step
from evprof.run.conversion.task import EVENTS, Task, Written

_FULL = frozenset({errno.ENOSPC, errno.EROFS, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})


class OutputFullError(UserError):
    """There is no room, or no right, to write at all: no other conversion would fare better."""


def convert(task: Task, step: Step) -> Written:
    """Writes `task.output`, whole or not at all; what was there is replaced. Raises UserError, and Cancelled."""
    check_place(task.output)
    refuse_itself(task)
    try:
        if task.recipe.to == FRAMES and task.output.is_dir() and not is_ours(task.output):
            raise UserError(
                f"{task.output}: holds other things than frames, which would be lost; choose another folder."
            )
        task.output.parent.mkdir(parents=True, exist_ok=True)
        return _convert(task, step)
    except OSError as error:
        raise _not_written(task.output, error) from None
    except MemoryError:
        raise UserError(f"{task.path}: memory ran out; convert a part with --start-ms and --duration-ms.") from None
    except Exception as error:
        if type(error).__module__.startswith("av."):
            raise _not_written(task.output, error) from None
        raise


def check_place(output: Path) -> None:
    """Raises UserError when a place cannot be reached, or holds neither a file nor a folder: devices stay devices."""
    for place in (output, part_of(output)):
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"{output}: cannot be written ({reason(error)}); choose another name.") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            raise UserError(f"{place}: is neither a file nor a folder; choose another name.")


def refuse_itself(task: Task) -> None:
    """Raises UserError when what is to be read would be written over."""
    for place in (task.output, part_of(task.output)):
        for source in (task.path, *task.others):
            if _same(Path(source), place) or (place.is_dir() and _same(Path(source).parent, place)):
                raise UserError(f"{source}: would be written over by its own conversion; give -o another place.")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.exists() and other.exists() and one.samefile(other)
    except OSError:
        return False


def _convert(task: Task, step: Step) -> Written:
    from evprof.run.conversion import from_events, from_video

    to = task.recipe.to
    if task.source == EVENTS:
        if to == FRAMES:
            return from_events.to_frames(task, step)
        return from_events.to_mp4(task, step) if to == MP4 else from_events.to_events(task, step)
    if to == FRAMES:
        return from_video.to_frames(task, step)
    return from_video.to_mp4(task, step) if to == MP4 else from_video.to_events(task, step)


def _not_written(output: Path, error: BaseException) -> UserError:
    sentence = f"{output}: cannot be written ({reason(error)}); check the place, its permissions and its free space."
    kind = OutputFullError if getattr(error, "errno", None) in _FULL else UserError
    return kind(sentence)
