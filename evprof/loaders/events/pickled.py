"""Reads the two shapes of pickle that recordings have, a dict of arrays and a list of structured ones, and no other.

EventGPT's `.npy` recordings are pickles, and unpickling a stranger's file runs whatever it names. This reader never
imports or calls anything a file asks for: inert notes stand in for numpy's own functions (`pickle_machine.py`), and the
columns are read out of the notes at the end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from evprof.core.budget import Budget
from evprof.core.errors import UserError
from evprof.loaders.events.pickle_machine import ByteSource, NotedCall, PickleRefusal, noted

_NUMBER = re.compile(r"[<>=|]?[biuf][1248]\Z")


def read_pickled_columns(source: ByteSource, budget: Budget) -> dict[str, npt.NDArray[Any]]:
    """The arrays, by key, of a pickled 0-d object array that holds a dict; entries that are no arrays are left out.

    An array of structured arrays (EventBench's `event_bins`: consecutive parts of one recording) gives its fields, the
    parts one after the other. `source` stands at the pickle's first byte; `budget` is the file's: many keys may refer
    to one text, which becomes bytes for each. Raises UserError for anything else, and names what was blocked.
    """
    with _sentences(budget.path):
        value = noted(source)
        if parts := _parts(value):
            return _joined_fields([_array(part, budget, _row_dtype) for part in parts], budget)
        found = _recording(value)
        return {key: _array(value, budget) for key, value in found.items() if _is_array(value)}


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    try:
        yield
    except PickleRefusal as refusal:
        raise UserError(
            f"{name}: {refusal}; load a recording from a source you trust, or save its columns as .npz."
        ) from None


def _recording(value: Any) -> dict[str, Any]:
    """The dict inside the 0-d object array, or the dict itself."""
    if isinstance(value, NotedCall) and isinstance(value.state, tuple) and len(value.state) == 5:
        content = value.state[4]
        if isinstance(content, list) and len(content) == 1:
            value = content[0]
    if not isinstance(value, dict):
        raise PickleRefusal("it holds a Python object that is not a dictionary of the columns x, y, t and p")
    return value


def _is_array(value: Any) -> bool:
    return isinstance(value, NotedCall) and value.function.endswith(("._reconstruct", "._frombuffer"))


def _parts(value: Any) -> list[NotedCall]:
    """The arrays that an object array holds; none where it holds anything else."""
    if not (isinstance(value, NotedCall) and isinstance(value.state, tuple) and len(value.state) == 5):
        return []
    content = value.state[4]
    return content if isinstance(content, list) and all(map(_is_array, content)) else []


class JoinedParts(dict[str, npt.NDArray[Any]]):
    """Fields of a recording's parts one after the other; `lengths` are the parts'."""

    lengths: tuple[int, ...] = ()


def _joined_fields(parts: list[npt.NDArray[Any]], budget: Budget) -> JoinedParts:
    names = parts[0].dtype.names or ()
    if any(part.ndim != 1 or part.dtype.names != names for part in parts):
        raise PickleRefusal("the parts of its recording are not alike")
    budget.take(sum(part.nbytes for part in parts))
    found = JoinedParts({name: np.concatenate([part[name] for part in parts]) for name in names})
    found.lengths = tuple(map(len, parts))
    return found


def _array(call: NotedCall, budget: Budget, dtype_of: Callable[[Any], np.dtype[Any]] | None = None) -> npt.NDArray[Any]:
    """The array of a note, checked against the bytes that the file holds."""
    if call.function.endswith("._frombuffer"):
        if len(call.arguments) != 4:
            raise PickleRefusal("one of its arrays is described wrongly")
        data, dtype_note, shape, order = call.arguments
        is_fortran = order == "F"
    else:
        if not (isinstance(call.state, tuple) and len(call.state) == 5):
            raise PickleRefusal("one of its arrays has no content")
        _, shape, dtype_note, is_fortran, data = call.state
    dtype = (dtype_of or _dtype)(dtype_note)
    content = _bytes(data, budget)
    if not (isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)):
        raise PickleRefusal("one of its arrays has a shape that makes no sense")
    if len(shape) > 4 or math.prod(shape) * dtype.itemsize != len(content):
        raise PickleRefusal(f"one of its arrays says it has shape {list(shape)[:4]} but holds {len(content):,} bytes")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if is_fortran else "C")


def _dtype(note: Any) -> np.dtype[Any]:
    if not (isinstance(note, NotedCall) and note.function == "numpy.dtype" and note.arguments):
        raise PickleRefusal("one of its arrays has no number type")
    text = note.arguments[0]
    if not (isinstance(text, str) and _NUMBER.match(text)):
        # Only a text is shown: tuples of tuples of one tuple take forever to write down.
        told = repr(text[:20]) if isinstance(text, str) else f"a {type(text).__name__}"
        raise PickleRefusal(f"one of its arrays holds {told}, which is not a number type")
    try:
        dtype = np.dtype(text)
    except TypeError:
        raise PickleRefusal(f"one of its arrays holds {text!r}, which is not a number type") from None
    if isinstance(note.state, tuple) and len(note.state) > 1 and note.state[1] in ("<", ">"):
        dtype = dtype.newbyteorder(note.state[1])
    return dtype


def _row_dtype(note: Any) -> np.dtype[Any]:
    """Of rows of named numbers: numpy's note gives names, and by name a number's type and its offset in the row."""
    state = note.state if isinstance(note, NotedCall) and note.function == "numpy.dtype" else None
    if not (
        isinstance(state, tuple) and len(state) >= 6 and isinstance(state[3], tuple) and isinstance(state[4], dict)
    ):
        raise PickleRefusal("its recording lies in parts that are not rows of x, y, t and p")
    names, fields, itemsize = state[3:6]
    placed: list[Any] = [fields.get(name) if isinstance(name, str) else None for name in names]
    if len(names) > _MOST_FIELDS or not all(isinstance(place, tuple) and len(place) == 2 for place in placed):
        raise PickleRefusal("one of its arrays has fields that make no sense")
    formats, offsets = [_dtype(place[0]) for place in placed], [_offset(place[1]) for place in placed]
    try:
        return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": _offset(itemsize)})
    except (ValueError, TypeError):
        raise PickleRefusal("one of its arrays has fields that make no sense") from None


_MOST_FIELDS = 64
_MOST_ROW_BYTES = 1 << 12


def _offset(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _MOST_ROW_BYTES:
        raise PickleRefusal("one of its arrays has fields that make no sense")
    return value


def _bytes(data: Any, budget: Budget) -> bytes | bytearray:
    if isinstance(data, NotedCall) and data.function == "_codecs.encode" and len(data.arguments) >= 1:
        # How Python 2 protocols spell bytes. Encoded here and not when met: a pickle may refer to one text many times.
        text = data.arguments[0]
        if isinstance(text, str):
            budget.take(len(text))
            try:
                return text.encode("latin-1")
            except UnicodeEncodeError:
                raise PickleRefusal("one of its arrays holds text that is no bytes") from None
    if isinstance(data, bytes | bytearray):
        return data
    raise PickleRefusal("one of its arrays holds Python objects instead of numbers")
