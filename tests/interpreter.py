"""Tests of Triton kernels without a GPU: files of `tests/interpreted`, each run in a process where Triton interprets.

Triton decides when it is imported, for the whole process, and torchao and bitsandbytes import it, too: elsewhere it
stays as it is. The files are not named as tests are, so that only `passes` collects them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def passes(name: str) -> str:
    """Runs `tests/interpreted/<name>.py`; returns what it printed, and fails with it."""
    path = ROOT / "tests" / "interpreted" / f"{name}.py"
    program = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "-p", "no:randomly", str(path)]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def multiply_bfloat16() -> None:
    """The interpreter keeps bfloat16 as whole numbers and would multiply those; float32 holds the same products."""
    import numpy as np
    import triton.language as tl
    from triton.runtime import interpreter

    multiply = interpreter.InterpreterBuilder.create_dot

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        data = interpreter._convert_float(handle.data, tl.bfloat16, tl.float32, None)
        return interpreter.TensorHandle(data.view(np.float32), tl.float32)

    def create_dot(self: Any, left: Any, right: Any, *others: Any) -> Any:
        return multiply(self, widened(left), widened(right), *others)

    interpreter.InterpreterBuilder.create_dot = create_dot


class _Lasting:
    """A patch that stays."""

    def restore(self) -> None:
        """Nothing."""


def patch_once() -> None:
    """The interpreter replaces Triton's language anew at every call of a kernel's function, which takes most of its
    time; from now on once for each file of kernels, and for good."""
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set[int]()

    def once(function: Any) -> _Lasting:
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch(function)
        return _Lasting()

    interpreter._patch_lang = once


def leave_out_overflow() -> None:
    """The interpreter works out whether a whole number overflows, which takes a third of its time, and then looks at
    the answer only when it debugs, which it does not here."""
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)


def count_launches(names: list[str]) -> None:
    from triton.runtime import interpreter

    run = interpreter.GridExecutor.__call__

    def counted(self: Any, *words: Any, **named: Any) -> Any:
        names.append(self.fn.__name__)
        return run(self, *words, **named)

    interpreter.GridExecutor.__call__ = counted
