"""Reads the two shapes of pickle that recordings have, a dict of arrays and a list of structured ones, and no other.

EventGPT's `.npy` recordings are pickles, and unpickling a stranger's file runs whatever it names. This reader never
imports or calls anything a file asks for: inert notes stand in for the functions of numpy, and the columns are read out
of the notes at the end.
"""

from __future__ import annotations

import math
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from evprof.core.budget import Budget
from evprof.core.errors import UserError

MAX_OPCODES = 20_000
"""A recording needs about 150; a pickle with more is something else."""

_ALLOWED = {
    f"{package}.{name}"
    for package in ("numpy.core", "numpy._core")
    for name in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
} | {"numpy.ndarray", "numpy.dtype", "_codecs.encode"}


class ByteSource(Protocol):
    """What pickletools reads from: a bounded BytesIO or mmap, whose `read` never allocates past its end."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def tell(self) -> int: ...


class PickleRefusal(Exception):  # noqa: N818 - becomes a UserError with the file's name
    """Why a pickle is not read, as the end of a sentence."""


@dataclass
class _Name:
    """A global the file names. It is never looked up."""

    path: str


@dataclass
class NotedCall:
    """A call the file asks for. It is never made. `state` is the content of its result."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None


def noted(source: ByteSource) -> Any:
    """What a pickle describes, with notes instead of calls. Raises PickleRefusal for what no recording needs."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(source)):  # type: ignore[arg-type]  # asks for IO[bytes], uses three of its methods
            if count > MAX_OPCODES:
                raise PickleRefusal(f"its pickle has more than {MAX_OPCODES:,} steps; a recording needs about 150")
            if opcode.name == "STOP":
                return machine.pop()
            if opcode.name not in _STEPS:
                raise PickleRefusal(f"its pickle uses {opcode.name}, which no recording needs; it was blocked")
            _STEPS[opcode.name](machine, argument)
    except (ValueError, OverflowError, MemoryError, IndexError, KeyError, AttributeError, TypeError) as error:
        raise PickleRefusal("its pickle is damaged or cut short") from error
    raise PickleRefusal("its pickle is cut short")


_MARK = object()


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise PickleRefusal("its pickle is damaged: a value is missing")
        return self.stack.pop()

    def pop_tuple(self, count: int) -> tuple[Any, ...]:
        return tuple(reversed([self.pop() for _ in range(count)]))

    def pop_to_mark(self) -> list[Any]:
        values: list[Any] = []
        while self.stack and self.stack[-1] is not _MARK:
            values.append(self.stack.pop())
        if not self.stack:
            raise PickleRefusal("its pickle is damaged: a mark is missing")
        self.stack.pop()
        return values[::-1]

    def top(self, kind: type[Any]) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise PickleRefusal("its pickle is damaged: a value has the wrong kind")
        return self.stack[-1]

    def remember(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.top(object)

    def name(self, argument: str | None) -> None:
        module, attribute = self.pop_tuple(2) if argument is None else argument.split(" ", 1)
        path = f"{module}.{attribute}"
        if path not in _ALLOWED:
            shown = path if len(path) <= 60 else f"{path[:57]}…"
            raise PickleRefusal(f"its pickle would run {shown!r}, which was blocked: it is not a plain recording")
        self.push(_Name(path))

    def call(self) -> None:
        function, arguments = self.pop_tuple(2)
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise PickleRefusal("its pickle calls something that is not a name, which was blocked")
        self.push(NotedCall(function.path, arguments))

    def build(self) -> None:
        state = self.pop()
        self.top(NotedCall).state = state

    def extend(self, values: list[Any]) -> None:
        self.top(list).extend(values)

    def fill(self, pairs: list[Any]) -> None:
        keys, values = pairs[::2], pairs[1::2]
        if len(keys) != len(values) or not all(isinstance(key, str) for key in keys):
            raise PickleRefusal("its pickle holds a dictionary whose keys are not names")
        self.top(dict).update(zip(keys, values, strict=True))


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, argument: None),
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"), _Machine.push),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _Machine.push),
    **dict.fromkeys(("GLOBAL", "STACK_GLOBAL"), _Machine.name),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"), _Machine.remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET", "GET"), lambda machine, place: machine.push(machine.memo[place])),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "MARK": lambda machine, _: machine.push(_MARK),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.push(machine.pop_tuple(1)),
    "TUPLE2": lambda machine, _: machine.push(machine.pop_tuple(2)),
    "TUPLE3": lambda machine, _: machine.push(machine.pop_tuple(3)),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
    "APPEND": lambda machine, _: machine.extend([machine.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.fill(list(machine.pop_tuple(2))),
    "SETITEMS": lambda machine, _: machine.fill(machine.pop_to_mark()),
}


_NUMBER = re.compile(r"[<>=|]?[biuf][1248]\Z")


def read_pickled_columns(source: ByteSource, budget: Budget) -> dict[str, npt.NDArray[Any]]:
    """The arrays, by key, of a pickled 0-d object array that holds a dict; entries that are no arrays are left out.

    An array of structured arrays (EventBench's `event_bins`: consecutive parts of one recording) gives its fields, the
    parts one after the other. `source` stands at the pickle's first byte; `budget` is the file's: many keys may refer
    to one text, which becomes bytes for each. Raises UserError for anything else, and names what was blocked.
    """
    try:
        value = noted(source)
        if parts := _parts(value):
            return _joined_fields([_array(part, budget, _row_dtype) for part in parts], budget)
        columns = _recording(value)
        return {key: _array(value, budget) for key, value in columns.items() if _is_array(value)}
    except PickleRefusal as refusal:
        raise UserError(
            f"{budget.path}: {refusal}; load a recording from a source you trust, or save its columns as .npz."
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
