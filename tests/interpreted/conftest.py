"""Triton's interpreter, made fast enough for whole answers."""

from __future__ import annotations

from typing import Any

import pytest


class _Lasting:
    """A patch that stays: everything in this process is interpreted."""

    def restore(self) -> None:
        """Nothing."""


@pytest.fixture(scope="session", autouse=True)
def patched_once() -> None:
    """Triton's language is replaced once per file of kernels; the interpreter does it anew at every call of a function,
    which takes most of its time."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang
    patched: set[int] = set()

    def once(function: Any) -> _Lasting:
        if id(function.__globals__) not in patched:
            patched.add(id(function.__globals__))
            patch(function)
        return _Lasting()

    interpreter._patch_lang = once
