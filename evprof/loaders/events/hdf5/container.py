"""Opens an HDF5 file and walks to the objects in it without ever leaving that file; it knows nothing of events."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evprof.core.errors import UserError
from evprof.loaders.paths import readable_file, reason

MAGIC = b"\x89HDF\r\n\x1a\n"

_MAGIC_PLACES = (0, 512, 1024, 2048)
"""Where the magic may stand: at the start, or after a user block (MATLAB's is 512 bytes)."""

_MOST_HOPS = 16
_MOST_LISTED = 12


def begins_as_hdf5(head: bytes) -> bool:
    """Whether the first bytes of a file are HDF5's, with or without a user block before them."""
    return any(head.startswith(MAGIC, place) for place in _MAGIC_PLACES)


@contextmanager
def sentences(name: str) -> Iterator[None]:
    """Turns what h5py and the filters say into one sentence about this file."""
    try:
        yield
    except MemoryError:
        raise UserError(
            f"{name}: asks for more memory than there is; the file is damaged, or needs a larger machine."
        ) from None
    except (OSError, LookupError, RuntimeError, ValueError, TypeError, ArithmeticError, AttributeError) as error:
        raise _damaged(name, error) from None
    except (zlib.error, EOFError, SystemError) as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: BaseException) -> UserError:
    said = printable(reason(error))
    if "already open for" in said or "unable to lock" in said:
        return UserError(f"{name}: another program is writing this file ({said}); open it when that has ended.")
    return UserError(f"{name}: cannot be read as HDF5 ({said}); it is damaged or cut short, copy or export it again.")


def printable(text: str, most: int = 160) -> str:
    """Text from a file, fit for a sentence."""
    return "".join(char if char.isprintable() else "?" for char in text)[:most]


def open_file(path: str | Path) -> Any:
    """An h5py.File for reading, without locks. Raises UserError."""
    import h5py

    found = readable_file(path)
    options: dict[str, Any] = {"mode": "r", "rdcc_nbytes": 0, "locking": False}
    with sentences(str(path)):
        try:
            return h5py.File(found, **options)
        except OSError as error:
            if "already open for" not in str(error):
                raise
        # A file whose writer allows readers (SWMR), or died while it did, opens only this way.
        return h5py.File(found, swmr=True, libver="latest", **options)


def find(group: Any, path: str, name: str) -> Any | None:
    """The group or dataset at `path` below `group`, None where there is none.

    Every step is looked at before it is taken: soft links are followed inside the file, up to 16 of them; a link into
    another file raises UserError, because opening one file must not read others.
    """
    here = group.file if path.startswith("/") else group
    steps = [step for step in path.split("/") if step not in ("", ".")]
    hops = 0
    while steps:
        step, *steps = steps
        target = _soft_target(here, step, name)
        if target is _NOTHING:
            return None
        if target is None:
            here = here[step]
        else:
            hops += 1
            if hops > _MOST_HOPS or len(steps) > 1000:
                raise UserError(f"{name}: links lead in a circle at '{printable(step)}'; export the recording again.")
            here = here.file if target.startswith("/") else here
            steps = [part for part in target.split("/") if part not in ("", ".")] + steps
        if steps and not is_group(here):
            return None
    if is_dataset(here) and is_elsewhere(here):
        raise UserError(
            f"{name}: '{printable(path)}' keeps its numbers in other files (a virtual or external dataset), which are "
            "not opened; copy it into one file with h5repack."
        )
    return here


_NOTHING = "\0"


def _soft_target(group: Any, step: str, name: str) -> str | None:
    """Where a soft link points; None for an object of the file itself, _NOTHING where there is no such link."""
    import h5py

    links = group.id.links
    key = step.encode("utf-8", "surrogateescape")
    if not links.exists(key):
        return _NOTHING
    kind = links.get_info(key).type
    if kind == h5py.h5l.TYPE_HARD:
        return None
    if kind == h5py.h5l.TYPE_SOFT:
        return str(links.get_val(key).decode("utf-8", "surrogateescape"))
    raise UserError(
        f"{name}: '{printable(step)}' is a link into another file, which is not followed; copy the recording into one "
        "file with h5repack or h5copy."
    )


def is_group(found: Any) -> bool:
    import h5py

    return isinstance(found, h5py.Group)


def is_dataset(found: Any) -> bool:
    import h5py

    return isinstance(found, h5py.Dataset)


def is_elsewhere(dataset: Any) -> bool:
    """Whether a dataset's numbers are in other files. Asked before anything else of it: its shape may open them."""
    import h5py

    plan = dataset.id.get_create_plist()
    return bool(plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count())


def listing(file: Any) -> str:
    names: list[str] = []

    def note(name: bytes) -> int | None:
        names.append(printable(name.decode("utf-8", "replace"), 60))
        return 1 if len(names) > _MOST_LISTED else None

    file.id.links.visit(note)
    more = " and more" if len(names) > _MOST_LISTED else ""
    return ", ".join(f"/{name}" for name in names[:_MOST_LISTED]) + more if names else "nothing"
