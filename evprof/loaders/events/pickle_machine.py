"""A stack machine for the few opcodes of a pickle that holds a recording: it imports nothing and calls nothing.

What the file asks to be called becomes an inert note, `NotedCall`; everything else is refused.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import Any, Protocol

MAX_OPCODES = 20_000
"""A recording needs about 150; a pickle with more is something else."""

_ALLOWED = {
    f"{package}.{name}"
    for package in ("numpy.core", "numpy._core")
    for name in ("multiarray._reconstruct", "multiarray.scalar", "numeric._frombuffer")
} | {"numpy.ndarray", "numpy.dtype", "_codecs.encode"}


def noted(source: ByteSource) -> Any:
    """What a pickle describes, with notes instead of calls. Raises PickleRefusal for what no recording needs."""
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(source)):  # type: ignore[arg-type]  # asks for IO[bytes], uses three of its methods
            if count > MAX_OPCODES:
                raise PickleRefusal(f"its pickle has more than {MAX_OPCODES:,} steps; a recording needs about 150")
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except (ValueError, OverflowError, MemoryError, IndexError, KeyError, AttributeError) as error:
        raise PickleRefusal("its pickle is damaged or cut short") from error
    raise PickleRefusal("its pickle is cut short")


class ByteSource(Protocol):
    """What pickletools reads from: a bounded BytesIO or mmap, whose `read` never allocates past its end."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes."""

    def readline(self) -> bytes:
        """Bytes up to and with the next newline."""

    def tell(self) -> int:
        """The offset of the next byte."""


class PickleRefusal(Exception):  # noqa: N818 - becomes a UserError with the file's name at the one place that knows it
    """Why a pickle is not read, as the end of a sentence."""


@dataclass
class _Name:
    """A global the file names, never looked up."""

    path: str


@dataclass
class NotedCall:
    """A call the file asks for, never made; `state` is what it would have been filled with."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None


_MARK = object()


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise PickleRefusal("its pickle is damaged: a value is missing")
        return self.stack.pop()

    def top(self, kind: type[Any]) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise PickleRefusal("its pickle is damaged: a value has the wrong kind")
        return self.stack[-1]

    def pop_to_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                values = self.stack[index + 1 :]
                del self.stack[index:]
                return values
        raise PickleRefusal("its pickle is damaged: a mark is missing")

    def step(self, name: str, argument: Any) -> None:
        """Carries out one opcode other than STOP."""
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _TUPLES:
            values = [self.pop() for _ in range(_TUPLES[name])]
            self.stack.append(tuple(reversed(values)))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            self._name(argument)
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self.memo[len(self.memo) if argument is None else argument] = self.top(object)
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            if argument not in self.memo:
                raise PickleRefusal("its pickle is damaged: it refers to a value that was never stored")
            self.stack.append(self.memo[argument])
        elif name in _BUILDERS:
            _BUILDERS[name](self)
        elif name not in ("PROTO", "FRAME"):
            raise PickleRefusal(f"its pickle uses {name}, which no recording needs; it was blocked")

    def _name(self, argument: str | None) -> None:
        if argument is None:
            attribute, module = self.pop(), self.pop()
        else:
            module, _, attribute = argument.partition(" ")
        path = f"{module}.{attribute}"
        if path not in _ALLOWED:
            shown = path if len(path) <= 60 else f"{path[:57]}…"
            raise PickleRefusal(f"its pickle would run {shown!r}, which was blocked: it is not a plain recording")
        self.stack.append(_Name(path))

    def mark(self) -> None:
        self.stack.append(_MARK)

    def tuple_from_mark(self) -> None:
        self.stack.append(tuple(self.pop_to_mark()))

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise PickleRefusal("its pickle calls something that is not a name, which was blocked")
        self.stack.append(NotedCall(function.path, arguments))

    def build(self) -> None:
        state = self.pop()
        self.top(NotedCall).state = state

    def append(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def appends(self) -> None:
        values = self.pop_to_mark()
        self.top(list).extend(values)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self._fill([key, value])

    def set_items(self) -> None:
        self._fill(self.pop_to_mark())

    def _fill(self, pairs: list[Any]) -> None:
        keys, values = pairs[::2], pairs[1::2]
        if len(keys) != len(values) or not all(isinstance(key, str) for key in keys):
            raise PickleRefusal("its pickle holds a dictionary whose keys are not names")
        self.top(dict).update(zip(keys, values, strict=True))

    def new_list(self) -> None:
        self.stack.append([])

    def new_dict(self) -> None:
        self.stack.append({})


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = frozenset({"INT", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}) | {
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_BUILDERS = {
    "MARK": _Machine.mark,
    "TUPLE": _Machine.tuple_from_mark,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.build,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "EMPTY_LIST": _Machine.new_list,
    "EMPTY_DICT": _Machine.new_dict,
}
