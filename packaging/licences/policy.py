"""Which licences a bundle may hold, and the licence of each part, from what parts say and from known.toml."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class LicenceError(Exception):
    """A part whose licence nobody knows, or that a bundle must not hold; one sentence."""


@dataclass(frozen=True)
class Policy:
    """The tables of known.toml."""

    allowed: frozenset[str]
    exceptions: frozenset[str]
    distributions: dict[str, str]
    system: dict[str, str]
    inside: tuple[dict[str, str], ...]

    def check(self, part: str, expression: str) -> str:
        """The expression, with a choice made where it leaves one. Raises LicenceError for one that is not allowed."""
        for choice in re.split(r"\s+OR\s+", expression):
            terms = [term.strip(" ()") for term in re.split(r"\s+AND\s+", choice)]
            if all(term in self.allowed or term in self.exceptions for term in terms):
                return choice.strip(" ()") if " OR " in expression else expression
        raise LicenceError(f"{part} is under {expression}, which a bundle must not hold; leave it out.")

    def of_distribution(self, found: metadata.Distribution) -> str:
        """Of a Python distribution. Raises LicenceError."""
        name = normal(found.name)
        expression = self.distributions.get(name) or next(
            iter(found.metadata.get_all("License-Expression") or []), None
        )
        if not expression:
            raise LicenceError(f"{found.name} says no SPDX licence; look it up and add it to known.toml.")
        return self.check(found.name, expression)

    def of_system(self, package: str) -> str:
        """Of a package of Debian. Raises LicenceError."""
        for pattern, expression in self.system.items():
            if fnmatchcase(package, pattern):
                return self.check(package, expression)
        raise LicenceError(
            f"The licence of Debian's {package} is not in known.toml; look it up and add it, or leave it out."
        )


@cache
def policy() -> Policy:
    """The one of known.toml."""
    found: dict[str, Any] = tomllib.loads((HERE / "known.toml").read_text(encoding="utf-8"))
    return Policy(
        frozenset(found["allowed"]),
        frozenset(found["exceptions"]),
        found["distributions"],
        found["system"],
        tuple(found["inside"]),
    )


def normal(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()
